// Products of a few rows: every kernel of this CPU against the sum as it is defined, bit for bit, whatever the rows,
// the shape and the share of the outputs.
#include "transformer/product.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <new>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "transformer/kernels.hpp"
#include "transformer/tensor_view.hpp"

namespace product_test {
namespace {

using multidraft::examples::tensor_type;
using multidraft::examples::tensor_view;
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
    float sum = 0;
    for (std::size_t k = 0; k < inputs.size(); k += 2)
        for (std::size_t const place : {k + 1, k})
            sum = place < inputs.size() ? multiply_add(weights[place], inputs[place], sum) : multiply_add(0, 0, sum);
    return sum;
}

float add(float a, float b) { return flushed(flushed(a) + flushed(b)); }

/// The sum of products in tiles.
float sum_by_tiles(std::span<float const> weights, std::span<float const> inputs) {
    float sum = 0;
    for (std::size_t begin = 0; begin < inputs.size(); begin += 32) {
        float of[2] = {0, 0};
        for (std::size_t k = begin; k < std::min(begin + 32, inputs.size()); ++k)
            of[k % 2] = multiply_add(weights[k], inputs[k], of[k % 2]);
        sum = add(sum, add(of[0], of[1]));
    }
    return sum;
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
        for (std::int32_t n = 0; n < outputs; ++n)
            m.values[static_cast<std::size_t>(n * inputs)] = n % 2 == 0 ? 127 : -127;
    if (type == weight_type::int8)
        for (std::int32_t n = 0; n < outputs; ++n) m.scales.push_back(std::abs(some_number(random)) + 0.01F);
    return m;
}

/// Bytes that end where memory ends: to read beyond them is a fault.
class guarded_bytes {
public:
    explicit guarded_bytes(std::size_t size) : pages_((size + page - 1) / page * page) {
        void* const all = ::mmap(nullptr, pages_ + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (all == MAP_FAILED || ::mprotect(static_cast<std::byte*>(all) + pages_, page, PROT_NONE) != 0)
            throw std::bad_alloc();
        memory_ = static_cast<std::byte*>(all);
        first_ = memory_ + pages_ - size;
    }
    ~guarded_bytes() { ::munmap(memory_, pages_ + page); }
    guarded_bytes(guarded_bytes const&) = delete;
    guarded_bytes& operator=(guarded_bytes const&) = delete;
    [[nodiscard]] std::byte* data() const { return first_; }

private:
    static constexpr std::size_t page = 65536;
    std::size_t pages_;
    std::byte* memory_;
    std::byte* first_;
};

std::size_t bytes_of(kernel const& k, matrix const& m) {
    return static_cast<std::size_t>((m.outputs + product::panel - 1) / product::panel) *
           product::panel_bytes(k, m.inputs);
}

/// Writes the matrix as a kernel reads it. In 8 bits, values that are integers up to 127 become themselves if a row has
/// one of 127: the scales are set afterwards.
void store(kernel const& k, matrix const& m, std::byte* to) {
    for (std::int32_t n = 0; n < m.outputs; n += product::panel, to += product::panel_bytes(k, m.inputs)) {
        std::vector<float> scales(product::panel);
        product::store_panel(k, m.values.data() + std::ptrdiff_t{n} * m.inputs, std::min(product::panel, m.outputs - n),
                             m.inputs, to, scales.data());
    }
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
        if (product::in_blocks(k->weights)) continue;
        bool const tiles = k->inputs == product::input_form::tiles;
        for (bool const round : {false, true}) {
            if (!round && k->inputs != product::input_form::floats) continue;
            for (auto const& [outputs, inputs] :
                 {std::pair{1, 1}, {3, 31}, {24, 64}, {25, 40}, {150, 96}, {31, 688}, {26, 2080}}) {
                matrix const m = some_matrix(outputs, inputs, k->weights, random);
                guarded_bytes const weights(bytes_of(*k, m));
                store(*k, m, weights.data());
                std::int32_t const most = tiles ? 150 : 64;
                auto const stride = static_cast<std::size_t>(inputs) + 3;
                std::vector<float> rows(stride * static_cast<std::size_t>(most));
                for (float& x : rows) x = some_number(random);
                std::vector<float> expected;
                for (std::size_t r = 0; r < static_cast<std::size_t>(most); ++r) {
                    std::vector<float> row(rows.begin() + static_cast<std::ptrdiff_t>(r * stride),
                                           rows.begin() + static_cast<std::ptrdiff_t>(r * stride) + inputs);
                    if (round)
                        for (float& x : row) x = rounded(x);
                    for (std::int32_t n = 0; n < outputs; ++n) {
                        auto const at = static_cast<std::size_t>(n);
                        auto const own = std::span(m.values).subspan(at * row.size(), row.size());
                        float const sum = tiles ? sum_by_tiles(own, row) : sum_of(own, row);
                        expected.push_back(m.scales.empty() ? sum : sum * m.scales[at]);
                    }
                }
                for (std::int32_t count = 1; count <= most; count += count < 82 ? 1 : 17) {
                    guarded_bytes const packed(product::packed_bytes(*k, inputs, count));
                    product::pack(*k, rows.data(), stride, count, inputs, round, packed.data());
                    auto const wide = static_cast<std::size_t>(outputs) + 5;
                    std::vector<float> output(wide * static_cast<std::size_t>(count), -7.0F);
                    std::int32_t const panels = (outputs + product::panel - 1) / product::panel;
                    std::int32_t const middle = static_cast<std::int32_t>(random() % static_cast<unsigned>(panels));
                    for (auto const& [first, last] : {std::pair{0, middle}, {middle, panels}}) {
                        k->run({weights.data(), m.scales.empty() ? nullptr : m.scales.data(), outputs, first, last,
                                product::steps(*k, inputs), packed.data(), count, output.data(), wide});
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

/// One step of a dot product of pairs, as AVX512_BF16 defines it, of the lane `n` of stored weights.
float add_pairs(kernel const& k, std::byte const* weights, std::byte const* inputs, std::int32_t n, float sum) {
    auto const number = [](std::byte const* at) {
        std::uint16_t bits = 0;
        std::memcpy(&bits, at, sizeof bits);
        return from_bfloat16(bits);
    };
    auto const integer = [](std::byte at) {
        auto const bits = std::to_integer<int>(at);
        return static_cast<float>((bits & 0x80) != 0 ? -(bits & 0x7f) : bits);
    };
    for (std::int32_t pair = 0; pair < 16; ++pair, inputs += 4) {
        for (std::int32_t const i : {1, 0}) {
            float w = 0;
            if (k.weights == weight_type::bf16) {
                w = number(weights + (pair * product::panel + n) * 4 + 2 * i);
            } else {
                // The bytes of two vectors interleaved: element e of the first half of every 16 bytes, then the second.
                std::int32_t const element = 2 * n + i;
                w = integer(weights[pair / 2 * 64 + element / 8 * 16 + pair % 2 * 8 + element % 8]);
            }
            sum = multiply_add(w, number(inputs + 2 * i), sum);
        }
    }
    return sum;
}

TEST(product, what_dot_products_read_is_stored_for_them) {
    // By their definition, whether this CPU has them or not.
    std::mt19937 random(3);
    for (kernel const k : {kernel{"pairs", weight_type::bf16, product::input_form::pairs, 12, 12, nullptr},
                           kernel{"pairs", weight_type::int8, product::input_form::pairs, 12, 12, nullptr}}) {
        for (auto const& [outputs, inputs] : {std::pair{1, 1}, {16, 64}, {21, 40}, {31, 688}}) {
            matrix const m = some_matrix(outputs, inputs, k.weights, random);
            std::vector<std::byte> weights(bytes_of(k, m));
            store(k, m, weights.data());
            std::vector<float> row(static_cast<std::size_t>(inputs));
            for (float& x : row) x = rounded(some_number(random));
            std::vector<std::byte> packed(product::packed_bytes(k, inputs, 1));
            product::pack(k, row.data(), row.size(), 1, inputs, true, packed.data());
            for (std::int32_t n = 0; n < outputs; ++n) {
                float sum = 0;
                for (std::int32_t s = 0; s < product::steps(k, inputs); ++s) {
                    auto const at = static_cast<std::size_t>(n / product::panel) * product::panel_bytes(k, inputs) +
                                    static_cast<std::size_t>(s * k.step_bytes());
                    sum = add_pairs(k, weights.data() + at, packed.data() + s * 64, n % product::panel, sum);
                }
                auto const at = static_cast<std::size_t>(n) * row.size();
                ASSERT_TRUE(same_bits(sum, sum_of(std::span(m.values).subspan(at, row.size()), row)))
                    << outputs << " x " << inputs << ", output " << n;
            }
        }
    }
}

TEST(product, eight_bits_are_the_nearest_multiples_of_a_scale) {
    std::mt19937 random(2);
    std::normal_distribution<float> normal;
    for (kernel const* const k : product::kernels()) {
        if (k->weights != weight_type::int8) continue;
        for (std::int32_t const inputs : {1, 40, 64, 100, 1100}) {
            for (float const size : {1.0F, 0.0F, 1e-30F, 1e-44F, 1e30F}) {
                auto const n = static_cast<std::size_t>(inputs);
                std::vector<float> row(n);
                for (float& w : row) w = normal(random) * size;
                std::vector<std::byte> stored(product::panel_bytes(*k, inputs));
                float scale = -1;
                product::store_panel(*k, row.data(), 1, inputs, stored.data(), &scale);
                float largest = 0;
                for (float const w : row) largest = std::max(largest, std::abs(w));
                EXPECT_EQ(scale, size < 1e-37F ? 0.0F : largest / 127);
                // Each weight by itself: its product with a row that has one 1.
                for (std::size_t i = 0; i < n; ++i) {
                    std::vector<float> one(n);
                    one[i] = 1;
                    std::vector<std::byte> packed(product::packed_bytes(*k, inputs, 1));
                    product::pack(*k, one.data(), n, 1, inputs, true, packed.data());
                    float got = -7;
                    k->run({stored.data(), &scale, 1, 0, 1, product::steps(*k, inputs), packed.data(), 1, &got, 1});
                    ASSERT_LE(std::abs(got - row[i]), size < 1e-37F ? largest : 0.5001F * scale) << k->name;
                }
            }
        }
    }
}

/// Rows of blocks with any integers and scales of any sign and size, 0 and denormal halves among them.
std::vector<std::byte> some_blocks(tensor_type type, std::int32_t count, std::mt19937& random) {
    auto const some = [&](unsigned below) { return static_cast<unsigned>(random() % below); };
    std::vector<std::byte> all;
    std::size_t const scales = type == tensor_type::q4_1 ? 2 : 1;
    for (std::int32_t b = 0; b < count; ++b) {
        for (std::size_t s = 0; s < scales; ++s) {
            // Mostly about 2^-7, as those of models.
            unsigned const exponent = some(8) == 0 ? some(31) : 8 + some(2);
            unsigned const half = (some(16) == 0 ? 0 : some(0x400) | exponent << 10U) | some(2) << 15U;
            all.push_back(static_cast<std::byte>(half & 0xffU));
            all.push_back(static_cast<std::byte>(half >> 8U));
        }
        std::size_t const integers = block_bytes(type) - 2 * scales;
        for (std::size_t i = 0; i < integers; ++i) all.push_back(static_cast<std::byte>(some(256)));
    }
    return all;
}

/// The type in a file of weights in blocks.
tensor_type blocks_of(weight_type weights) {
    return weights == weight_type::q8_0   ? tensor_type::q8_0
           : weights == weight_type::q4_0 ? tensor_type::q4_0
                                          : tensor_type::q4_1;
}

/// Writes blocks as a kernel reads them.
void store(kernel const& k, tensor_view const& tensor, std::byte* to) {
    auto const outputs = static_cast<std::int32_t>(tensor.shape[0]);
    auto const inputs = static_cast<std::int32_t>(tensor.shape[1]);
    for (std::int32_t n = 0; n < outputs; n += product::panel, to += product::panel_bytes(k, inputs)) {
        std::vector<std::byte const*> rows;
        for (std::int32_t i = n; i < std::min(n + product::panel, outputs); ++i)
            rows.push_back(tensor.stored_row(static_cast<std::size_t>(i)).data());
        product::store_blocks(k, rows, inputs, to);
    }
}

TEST(product, weights_in_blocks_give_the_bits_of_the_same_weights_in_float) {
    std::mt19937 random(5);
    for (kernel const* const k : product::kernels()) {
        if (!product::in_blocks(k->weights) || k->inputs == product::input_form::bytes) continue;
        tensor_type const type = blocks_of(k->weights);
        // The kernel of the same instructions for weights in float.
        auto const of_floats = std::ranges::find_if(product::kernels(), [&](kernel const* other) {
            return other->weights == weight_type::f32 && std::string(other->name) == k->name;
        });
        ASSERT_NE(of_floats, product::kernels().end());
        for (auto const& shape : {std::pair{1, 32}, {3, 32}, {16, 64}, {25, 96}, {150, 64}, {31, 704}, {97, 2080}}) {
            std::int32_t const outputs = shape.first;
            std::int32_t const inputs = shape.second;
            std::vector<std::byte> const bytes = some_blocks(type, outputs * inputs / 32, random);
            tensor_view const tensor{type, {outputs, inputs}, bytes};
            matrix m{outputs, inputs, std::vector<float>(static_cast<std::size_t>(outputs * inputs)), {}};
            tensor.read(0, m.values);
            guarded_bytes const floats(bytes_of(**of_floats, m));
            store(**of_floats, m, floats.data());

            std::int32_t const panels = (outputs + product::panel - 1) / product::panel;
            guarded_bytes const weights(bytes_of(*k, m));
            EXPECT_EQ(bytes_of(*k, m), static_cast<std::size_t>(panels * product::panel) * bytes.size() /
                                           static_cast<std::size_t>(outputs));
            store(*k, tensor, weights.data());
            std::int32_t const most = 64;
            auto const stride = static_cast<std::size_t>(inputs) + 3;
            std::vector<float> rows(stride * most);
            for (float& x : rows) x = some_number(random);
            auto const wide = static_cast<std::size_t>(outputs) + 5;
            auto const multiply = [&](kernel const& by, std::byte const* from, std::int32_t count, std::int32_t cut) {
                guarded_bytes const packed(product::packed_bytes(by, inputs, count));
                product::pack(by, rows.data(), stride, count, inputs, false, packed.data());
                std::vector<float> output(wide * static_cast<std::size_t>(count), -7.0F);
                for (auto const& [first, last] : {std::pair{0, cut}, {cut, panels}})
                    by.run({from, nullptr, outputs, first, last, product::steps(by, inputs), packed.data(), count,
                            output.data(), wide});
                return output;
            };
            for (std::int32_t count = 1; count <= most; ++count) {
                auto const cut = static_cast<std::int32_t>(random() % static_cast<unsigned>(panels));
                auto const got = multiply(*k, weights.data(), count, cut);
                auto const due = multiply(**of_floats, floats.data(), count, 0);
                for (std::size_t i = 0; i < got.size(); ++i)
                    ASSERT_TRUE(same_bits(got[i], due[i]))
                        << got[i] << " " << due[i] << " " << k->name << " type " << static_cast<int>(type) << ", "
                        << outputs << " x " << inputs << ", row " << i / wide << " of " << count << ", output "
                        << i % wide;
            }
        }
    }
}

/// A row of inputs as product.hpp rounds it to 8 bits: integers, and the scale of each 32.
struct row_of_bytes {
    std::vector<std::int32_t> integers;
    std::vector<float> scales;

    explicit row_of_bytes(std::span<float const> row) {
        for (std::size_t from = 0; from < row.size(); from += 32) {
            float largest = 0;
            for (float const x : row.subspan(from, 32)) largest = std::max(largest, std::abs(x));
            float const scale = largest / 127;
            float const inverse = 1 / scale;
            for (float const x : row.subspan(from, 32))
                integers.push_back(std::isfinite(inverse) ? static_cast<std::int32_t>(std::nearbyint(x * inverse)) : 0);
            scales.push_back(flushed(scale));
        }
    }
};

/// The product of a row of blocks in a file with such inputs, as product.hpp defines it.
float sum_of(tensor_type type, std::byte const* blocks, row_of_bytes const& inputs) {
    auto const half_at = [&](std::size_t at) {
        std::uint16_t bits = 0;
        std::memcpy(&bits, blocks + at, sizeof bits);
        std::vector<float> value(1);
        tensor_view{tensor_type::f16, {1}, std::as_bytes(std::span(&bits, 1))}.read(0, value);
        return value[0];
    };
    float sum = 0;
    for (std::size_t b = 0; b < inputs.scales.size(); ++b, blocks += block_bytes(type)) {
        std::byte const* const integers = blocks + (type == tensor_type::q4_1 ? 4 : 2);
        std::int32_t products = 0;
        std::int32_t all = 0;
        for (std::size_t i = 0; i < 32; ++i) {
            auto const bits = std::to_integer<std::int32_t>(integers[type == tensor_type::q8_0 ? i : i % 16]);
            std::int32_t const q = type == tensor_type::q8_0
                                       ? static_cast<std::int8_t>(bits)
                                       : (i < 16 ? bits & 15 : bits >> 4) - (type == tensor_type::q4_0 ? 8 : 0);
            products += q * inputs.integers[32 * b + i];
            all += inputs.integers[32 * b + i];
        }
        float const scale = inputs.scales[b];
        sum = multiply_add(static_cast<float>(products), flushed(half_at(0) * scale), sum);
        if (type == tensor_type::q4_1) sum = multiply_add(half_at(2), flushed(scale * static_cast<float>(all)), sum);
    }
    return sum;
}

TEST(product, weights_in_blocks_times_bytes_give_the_bits_of_the_sum_as_defined) {
    std::mt19937 random(6);
    for (kernel const* const k : product::kernels()) {
        if (k->inputs != product::input_form::bytes) continue;
        tensor_type const type = blocks_of(k->weights);
        for (auto const& shape : {std::pair{1, 32}, {3, 32}, {16, 64}, {25, 96}, {150, 64}, {31, 704}, {97, 2080}}) {
            std::int32_t const outputs = shape.first;
            std::int32_t const inputs = shape.second;
            // Extreme integers, too: sums of 16 bits hold them.
            std::vector<std::byte> bytes = some_blocks(type, outputs * inputs / 32, random);
            if (outputs == 16)
                for (std::size_t i = 0; i < bytes.size(); ++i)
                    if (i % block_bytes(type) >= 4) bytes[i] = static_cast<std::byte>(i % 3 == 0 ? 0x80 : 0xff);
            tensor_view const tensor{type, {outputs, inputs}, bytes};
            std::int32_t const panels = (outputs + product::panel - 1) / product::panel;
            guarded_bytes const weights(static_cast<std::size_t>(panels) * product::panel_bytes(*k, inputs));
            store(*k, tensor, weights.data());
            std::int32_t const most = 64;
            auto const stride = static_cast<std::size_t>(inputs) + 3;
            auto const width = static_cast<std::size_t>(inputs);
            std::vector<float> rows(stride * most);
            for (float& x : rows) x = some_number(random);
            // Of one sign and size, of zeros, and of numbers whose scale is denormal.
            std::fill_n(rows.begin(), width, 1.0F);
            std::fill_n(rows.begin() + static_cast<std::ptrdiff_t>(stride), width, -3.0F);
            std::fill_n(rows.begin() + static_cast<std::ptrdiff_t>(2 * stride), width, 0.0F);
            std::fill_n(rows.begin() + static_cast<std::ptrdiff_t>(3 * stride), width, 1e-37F);
            std::fill_n(rows.begin() + static_cast<std::ptrdiff_t>(4 * stride), width, 1e-44F);
            std::vector<float> due;
            std::span<float const> const numbers = rows;
            for (std::size_t r = 0; r < most; ++r) {
                row_of_bytes const row(numbers.subspan(r * stride, width));
                for (std::size_t n = 0; n < static_cast<std::size_t>(outputs); ++n)
                    due.push_back(sum_of(type, tensor.stored_row(n).data(), row));
            }
            auto const wide = static_cast<std::size_t>(outputs) + 5;
            for (std::int32_t count = 1; count <= most; ++count) {
                auto const cut = static_cast<std::int32_t>(random() % static_cast<unsigned>(panels));
                guarded_bytes const packed(product::packed_bytes(*k, inputs, count));
                product::pack(*k, rows.data(), stride, count, inputs, true, packed.data());
                std::vector<float> output(wide * static_cast<std::size_t>(count), -7.0F);
                for (auto const& [first, last] : {std::pair{0, cut}, {cut, panels}})
                    k->run({weights.data(), nullptr, outputs, first, last, product::steps(*k, inputs), packed.data(),
                            count, output.data(), wide});
                for (std::size_t i = 0; i < output.size(); ++i) {
                    if (i % wide >= static_cast<std::size_t>(outputs)) {
                        ASSERT_EQ(output[i], -7.0F) << "beyond the row";
                        continue;
                    }
                    float const sum = due[i / wide * static_cast<std::size_t>(outputs) + i % wide];
                    if (fused(*k))
                        ASSERT_TRUE(same_bits(output[i], sum))
                            << output[i] << " " << sum << " " << k->name << " type " << static_cast<int>(type) << ", "
                            << outputs << " x " << inputs << ", row " << i / wide << " of " << count << ", output "
                            << i % wide;
                    else
                        ASSERT_NEAR(output[i], sum, 1e-3F * (1 + std::abs(sum)));
                }
            }
        }
    }
}

TEST(product, inputs_that_are_no_numbers_give_none) {
    for (kernel const* const k : product::kernels()) {
        if (k->inputs != product::input_form::bytes) continue;
        std::vector<std::byte> const weights(product::panel_bytes(*k, 64), std::byte{0x11});
        for (float const wrong : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
            std::vector<float> row(64, 1.0F);
            row[40] = wrong;
            std::vector<std::byte> packed(product::packed_bytes(*k, 64, 1));
            product::pack(*k, row.data(), row.size(), 1, 64, true, packed.data());
            float got = 0;
            k->run({weights.data(), nullptr, 1, 0, 1, product::steps(*k, 64), packed.data(), 1, &got, 1});
            EXPECT_FALSE(std::isfinite(got)) << k->name << ' ' << wrong;
        }
    }
}

TEST(product, a_kernel_for_every_type) {
    for (auto const type : {weight_type::bf16, weight_type::f32, weight_type::int8, weight_type::q8_0,
                            weight_type::q4_0, weight_type::q4_1}) {
        EXPECT_EQ(product::kernel_for(type, true).weights, type);
    }
    EXPECT_EQ(product::kernel_for(weight_type::bf16, false).inputs, product::input_form::floats);
    EXPECT_EQ(product::kernel_for(weight_type::f32, false).inputs, product::input_form::floats);
    for (auto const type : {weight_type::q8_0, weight_type::q4_0, weight_type::q4_1}) {
        EXPECT_EQ(product::kernel_for(type, false).inputs, product::input_form::floats);
        EXPECT_EQ(product::kernel_for(type, true).inputs, product::input_form::bytes);
    }
}

}  // namespace
}  // namespace product_test
