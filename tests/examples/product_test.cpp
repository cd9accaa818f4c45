// Products of a few rows: every kernel of this CPU against the sum as it is defined, bit for bit, whatever the rows,
// the shape and the share of the outputs.
#include "transformer/product.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "transformer/kernels.hpp"

namespace {

using multidraft::examples::kernels::to_bfloat16;
namespace product = multidraft::examples::product;
using product::kernel;
using product::weight_type;

float from_bfloat16(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16U); }
float rounded(float x) { return from_bfloat16(static_cast<std::uint16_t>(to_bfloat16(x))); }
float flushed(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0F, x) : x; }

/// c + a * b, as the kernels have it: denormal operands and results are 0.
float multiply_add(float a, float b, float c) { return flushed(std::fma(flushed(a), flushed(b), flushed(c))); }

/// The sum as product.hpp defines it.
float sum_of(std::span<float const> weights, std::span<float const> inputs) {
    float lane[16] = {};
    for (std::size_t at = 0; at < inputs.size(); at += 32)
        for (std::size_t l = 0; l < 16; ++l)
            for (std::size_t const place : {at + 2 * l + 1, at + 2 * l})
                if (place < inputs.size()) lane[l] = multiply_add(weights[place], inputs[place], lane[l]);
    for (std::size_t half = 8; half > 0; half /= 2)
        for (std::size_t l = 0; l < half; ++l) lane[l] += lane[l + half];
    return lane[0];
}

struct matrix {
    std::int32_t outputs, inputs;
    std::vector<float> values;  ///< that its type has
    std::vector<float> scales;
};

/// Numbers of many sizes, some of them denormal.
float some_number(std::mt19937& random) {
    std::normal_distribution<float> normal;
    float const size = random() % 16 == 0 ? std::ldexp(1.0F, -static_cast<int>(random() % 140)) : 1.0F;
    return normal(random) * size;
}

matrix some_matrix(std::int32_t outputs, std::int32_t inputs, weight_type type, std::mt19937& random) {
    matrix m{outputs, inputs, {}, {}};
    for (std::int32_t i = 0; i < outputs * inputs; ++i) {
        float const x = some_number(random);
        m.values.push_back(type == weight_type::f32    ? x
                           : type == weight_type::bf16 ? rounded(x)
                                                       : static_cast<float>(static_cast<int>(random() % 255) - 127));
    }
    if (type == weight_type::int8)
        for (std::int32_t n = 0; n < outputs; ++n) m.scales.push_back(std::abs(some_number(random)) + 0.01F);
    return m;
}

/// The matrix as a kernel reads it, its rows padded with zeros, beginning at an odd address.
std::vector<std::byte> stored(kernel const& k, matrix const& m, std::size_t& row_bytes) {
    std::int32_t const steps = (m.inputs + k.step - 1) / k.step;
    row_bytes = static_cast<std::size_t>(steps * k.weight_bytes());
    std::vector<std::byte> bytes(1 + row_bytes * static_cast<std::size_t>(m.outputs));
    for (std::int32_t n = 0; n < m.outputs; ++n) {
        std::vector<float> row(static_cast<std::size_t>(steps * k.step));
        std::copy_n(m.values.begin() + std::ptrdiff_t{n} * m.inputs, m.inputs, row.begin());
        std::byte* const to = bytes.data() + 1 + static_cast<std::size_t>(n) * row_bytes;
        if (k.weights == weight_type::f32) std::memcpy(to, row.data(), row_bytes);
        for (std::size_t i = 0; i < row.size(); ++i) {
            auto const half = to_bfloat16(row[i]);
            if (k.weights == weight_type::bf16) std::memcpy(to + 2 * i, &half, 2);
        }
        if (k.weights != weight_type::int8) continue;
        std::vector<std::int8_t> const integers(row.begin(), row.end());
        for (std::int32_t s = 0; s < steps; ++s) k.store(integers.data() + s * k.step, to + s * k.weight_bytes());
    }
    return bytes;
}

bool same_bits(float a, float b) { return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b); }

bool fused([[maybe_unused]] kernel const& k) {
#if defined(__FP_FAST_FMAF)
    return true;
#else
    return std::string(k.name) != "portable";
#endif
}

TEST(product, every_kernel_gives_the_bits_of_the_sum_as_defined) {
    std::mt19937 random(1);
    for (kernel const* const k : product::kernels()) {
        for (bool const round : {false, true}) {
            if (!round && k->inputs == product::input_form::pairs) continue;
            for (auto const& [outputs, inputs] :
                 {std::pair{1, 1}, {3, 31}, {24, 64}, {25, 40}, {50, 96}, {31, 688}, {26, 2080}}) {
                matrix const m = some_matrix(outputs, inputs, k->weights, random);
                std::size_t row_bytes = 0;
                auto const weights = stored(*k, m, row_bytes);
                std::int32_t const most = 19;
                auto const stride = static_cast<std::size_t>(inputs) + 3;
                std::vector<float> rows(stride * most);
                for (float& x : rows) x = some_number(random);
                std::vector<float> expected;
                for (std::size_t r = 0; r < most; ++r) {
                    std::vector<float> row(rows.begin() + static_cast<std::ptrdiff_t>(r * stride),
                                           rows.begin() + static_cast<std::ptrdiff_t>(r * stride) + inputs);
                    if (round)
                        for (float& x : row) x = rounded(x);
                    for (std::int32_t n = 0; n < outputs; ++n) {
                        auto const at = static_cast<std::size_t>(n);
                        float const sum = sum_of(std::span(m.values).subspan(at * row.size(), row.size()), row);
                        expected.push_back(m.scales.empty() ? sum : sum * m.scales[at]);
                    }
                }
                for (std::int32_t count = 1; count <= most; ++count) {
                    std::int32_t const together = std::min(k->together, 1 + static_cast<std::int32_t>(random() % 8));
                    std::vector<std::byte> packed(product::packed_bytes(*k, inputs, count));
                    product::pack(*k, rows.data(), stride, count, inputs, together, round, packed.data());
                    auto const wide = static_cast<std::size_t>(outputs) + 5;
                    std::vector<float> output(wide * static_cast<std::size_t>(count), -7.0F);
                    std::int32_t const middle = static_cast<std::int32_t>(random() % static_cast<unsigned>(outputs));
                    for (auto const& [first, last] : {std::pair{0, middle}, {middle, outputs}}) {
                        k->run({weights.data() + 1, row_bytes, m.scales.empty() ? nullptr : m.scales.data(), first,
                                last, (inputs + k->step - 1) / k->step, packed.data(), count, together, output.data(),
                                wide, random() % 2 == 0});
                    }
                    for (std::size_t r = 0; r < static_cast<std::size_t>(count); ++r) {
                        for (std::size_t n = 0; n < wide; ++n) {
                            if (n >= static_cast<std::size_t>(outputs)) {
                                ASSERT_EQ(output[r * wide + n], -7.0F) << "beyond the row";
                                continue;
                            }
                            float const due = expected[r * static_cast<std::size_t>(outputs) + n];
                            float const got = output[r * wide + n];
                            if (fused(*k))
                                ASSERT_TRUE(same_bits(got, due))
                                    << got << " " << due << " " << k->name << " " << outputs << " x " << inputs
                                    << ", row " << r << " of " << count;
                            else
                                ASSERT_NEAR(got, due, 1e-3F * (1 + std::abs(due)));
                        }
                    }
                }
            }
        }
    }
}

TEST(product, a_kernel_for_every_type) {
    for (auto const type : {weight_type::bf16, weight_type::f32, weight_type::int8}) {
        EXPECT_EQ(product::kernel_for(type, true).weights, type);
    }
    EXPECT_EQ(product::kernel_for(weight_type::bf16, false).inputs, product::input_form::split);
    EXPECT_EQ(product::kernel_for(weight_type::f32, false).inputs, product::input_form::split);
}

}  // namespace
