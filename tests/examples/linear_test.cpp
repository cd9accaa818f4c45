// The matrices of a model by every multiplier and in every precision: right, and the same bits for a row whatever the
// other rows and the threads.
#include "transformer/linear.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "examples/model_support.hpp"
#include "transformer/aligned_array.hpp"
#include "transformer/kernels.hpp"
#include "transformer/safetensors.hpp"

namespace {

using namespace multidraft::testing;
using multidraft::examples::aligned_array;
using multidraft::examples::linear;
using multidraft::examples::linear_maker;
using multidraft::examples::team;
using multidraft::examples::tensor_store;
using multidraft::examples::kernels::to_bfloat16;
using multidraft::examples::kernels::to_float;

/// Precision, multiplier, and the bytes of the model that the matrices are said to be of.
class linears : public ::testing::TestWithParam<std::tuple<precision, multiplier, std::size_t>> {};

std::string name_of(::testing::TestParamInfo<linears::ParamType> const& param) {
    auto const& [numbers, by, bytes] = param.param;
    std::string const name = numbers == precision::f32 ? "f32" : numbers == precision::bf16 ? "bf16" : "int8";
    return name + (by == multiplier::ours ? "_ours" : bytes > 1 ? "_onednn_slabs" : "_onednn");
}

INSTANTIATE_TEST_SUITE_P(all, linears,
                         ::testing::Values(std::tuple{precision::f32, multiplier::ours, std::size_t{1}},
                                           std::tuple{precision::bf16, multiplier::ours, std::size_t{1}},
                                           std::tuple{precision::int8, multiplier::ours, std::size_t{1}},
                                           std::tuple{precision::f32, multiplier::onednn, std::size_t{1}},
                                           // In slabs of outputs.
                                           std::tuple{precision::f32, multiplier::onednn, std::size_t{1} << 30U},
                                           std::tuple{precision::bf16, multiplier::onednn, std::size_t{1} << 30U}),
                         name_of);

struct product_and_error {
    double value;
    double error;
};

/// The product of a row of weights, which bfloat16 has, with a row of inputs, both as the precision stores them; and by
/// how much sums in float may differ from it.
product_and_error product_of(std::span<float const> weights, std::span<float const> inputs, precision numbers) {
    double largest = 0;
    for (float const w : weights) largest = std::max(largest, std::abs(double{w}));
    double const scale = largest / 127;
    product_and_error all{0, 1e-6};
    double squares = 0;
    for (std::size_t k = 0; k < weights.size(); ++k) {
        double const x = numbers == precision::f32 ? inputs[k] : to_float(to_bfloat16(inputs[k]));
        double w = weights[k];
        if (numbers == precision::int8) {
            double const multiple = w / scale;
            w = std::nearbyint(multiple) * scale;
            // Halfway between two integers either may be taken.
            if (std::abs(std::abs(multiple - std::trunc(multiple)) - 0.5) < 1e-4) all.error += scale * std::abs(x);
        }
        all.value += x * w;
        squares += w * w;
    }
    all.error += 1e-5 * std::sqrt(squares);
    return all;
}

TEST_P(linears, multiply) {
    auto const& [numbers, by, bytes] = GetParam();
    auto const store = tensor_store::open(models / "target");
    std::string const layer = "model.layers.3.";
    // Several matrices under one another; one whose rows have to be padded; one that is large.
    struct group {
        std::vector<std::pair<std::string, std::int32_t>> parts;
        std::int32_t inputs;
    };
    std::vector<group> const groups{{{{layer + "self_attn.q_proj.weight", 256},
                                      {layer + "self_attn.k_proj.weight", 128},
                                      {layer + "self_attn.v_proj.weight", 128}},
                                     256},
                                    {{{layer + "mlp.gate_proj.weight", 688}, {layer + "mlp.up_proj.weight", 688}}, 256},
                                    {{{layer + "mlp.down_proj.weight", 256}}, 688},
                                    {{{"model.embed_tokens.weight", 4096}}, 256}};
    constexpr std::int32_t most = 64;
    linear_maker maker(numbers, by, bytes, most);
    team alone(1);
    team several(3);
    for (group const& g : groups) {
        std::vector<linear_maker::part> parts;
        std::vector<float> matrix;
        for (auto const& [name, outputs] : g.parts) {
            auto const& tensor = store.get(name, {outputs, g.inputs});
            parts.push_back({&tensor, outputs});
            std::vector<float> values(static_cast<std::size_t>(outputs) * static_cast<std::size_t>(g.inputs));
            tensor.read(0, values);
            matrix.insert(matrix.end(), values.begin(), values.end());
        }
        std::unique_ptr<linear> made;
        try {
            made = maker.make(parts, g.inputs, several);
        } catch (std::runtime_error const& e) {
            ASSERT_TRUE(by == multiplier::onednn && numbers == precision::bf16) << e.what();
            GTEST_SKIP() << e.what();
        }
        EXPECT_EQ(made->inputs(), g.inputs);
        auto const columns = static_cast<std::size_t>(made->outputs());
        ASSERT_EQ(columns * static_cast<std::size_t>(g.inputs), matrix.size());
        EXPECT_GT(made->bytes(), matrix.size() / 2);
        EXPECT_FALSE(made->description().empty());

        auto const width = static_cast<std::size_t>(g.inputs);
        std::mt19937 random(1);
        std::normal_distribution<float> normal;
        std::vector<float> rows(width * most);
        for (float& x : rows) x = normal(random);
        auto const multiply = [&](team& threads, int active, std::int32_t first, std::int32_t count) {
            aligned_array<std::byte> const workspace(made->workspace_bytes(count));
            std::vector<float> output(static_cast<std::size_t>(count) * columns);
            made->multiply(threads, active, rows.data() + static_cast<std::size_t>(first) * width, count, output.data(),
                           workspace.data());
            return output;
        };
        auto const expected = multiply(alone, 1, 0, most);
        for (std::size_t n = 0; n < columns; ++n) {
            auto const due = product_of(std::span(matrix).subspan(n * width, width),
                                        std::span(rows).subspan(5 * width, width), numbers);
            ASSERT_NEAR(expected[5 * columns + n], due.value, due.error) << n;
        }
        for (std::int32_t const count : {1, 2, 3, 5, 8, 9, 17, 33, 63}) {
            for (std::int32_t const first : {0, 1, most - count}) {
                auto const due = std::span(expected).subspan(static_cast<std::size_t>(first) * columns,
                                                             static_cast<std::size_t>(count) * columns);
                ASSERT_TRUE(same_bits(multiply(alone, 1, first, count), due)) << count << " rows from " << first;
                ASSERT_TRUE(same_bits(multiply(several, 3, first, count), due)) << count << " rows from " << first;
                ASSERT_TRUE(same_bits(multiply(several, 2, first, count), due)) << count << " rows from " << first;
            }
        }
    }
}

TEST(linear_maker, refuses_what_onednn_has_not) {
    EXPECT_MESSAGE(message_of<std::runtime_error>([] { linear_maker(precision::int8, multiplier::onednn, 1, 64); }),
                   "oneDNN");
}

}  // namespace
