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

#include "examples/gguf_writer.hpp"
#include "examples/model_support.hpp"
#include "transformer/aligned_array.hpp"
#include "transformer/block_rounding.hpp"
#include "transformer/kernels.hpp"
#include "transformer/safetensors.hpp"

namespace linear_test {
namespace {

using namespace multidraft::testing;
using multidraft::examples::aligned_array;
using multidraft::examples::linear;
using multidraft::examples::linear_maker;
using multidraft::examples::loaded_bytes;
using multidraft::examples::numbers_of_drafter;
using multidraft::examples::round_to_blocks;
using multidraft::examples::team;
using multidraft::examples::tensor_store;
using multidraft::examples::tensor_view;
using multidraft::examples::kernels::to_bfloat16;
using multidraft::examples::kernels::to_float;

/// Precision, multiplier, and the bytes of the model that the matrices are said to be of.
class linears : public ::testing::TestWithParam<std::tuple<precision, multiplier, std::size_t>> {};

std::string name_of(::testing::TestParamInfo<linears::ParamType> const& param) {
    auto const& [numbers, by, bytes] = param.param;
    std::string const name = numbers == precision::f32      ? "f32"
                             : numbers == precision::stored ? "stored"
                             : numbers == precision::bf16   ? "bf16"
                                                            : "int8";
    return name + (by == multiplier::ours ? "_ours" : bytes > 1 ? "_onednn_slabs" : "_onednn");
}

INSTANTIATE_TEST_SUITE_P(all, linears,
                         ::testing::Values(std::tuple{precision::f32, multiplier::ours, std::size_t{1}},
                                           std::tuple{precision::stored, multiplier::ours, std::size_t{1}},
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
        bool const exact = numbers == precision::f32 || numbers == precision::stored;
        double const x = static_cast<double>(exact ? inputs[k] : to_float(to_bfloat16(inputs[k])));
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

// Parts of several types under one another, whose borders are not those of panels, with rows that a file has in another
// order.
TEST(linear_maker, stored_weights_have_the_bits_of_the_same_weights_in_float_or_of_one_row) {
    struct shape {
        tensor_type type;
        std::int32_t outputs;
        std::int64_t interleaved;
    };
    std::vector<std::vector<shape>> const all{
        {{tensor_type::q4_1, 48, 16}, {tensor_type::q4_1, 21, 0}, {tensor_type::q8_0, 300, 0}},
        {{tensor_type::q4_0, 1, 0}, {tensor_type::f16, 17, 0}, {tensor_type::bf16, 33, 0}, {tensor_type::q4_0, 40, 8}},
        {{tensor_type::q8_0, 17, 0}},
        {{tensor_type::q4_1, 520, 0}},
        {{tensor_type::f32, 20, 0}, {tensor_type::f16, 20, 0}}};
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    team threads(3);
    constexpr std::int32_t most = 64;
    for (std::int32_t const inputs : {32, 96, 320}) {
        auto const width = static_cast<std::size_t>(inputs);
        std::vector<float> rows(width * most);
        for (float& x : rows) x = normal(random);
        for (std::vector<shape> const& shapes : all) {
            std::vector<stored_numbers> numbers;
            std::vector<tensor_view> tensors;
            std::size_t stored_bytes = 0;
            std::size_t panel_bytes = 0;
            for (shape const& s : shapes) {
                numbers.push_back(some_numbers(s.type, static_cast<std::size_t>(s.outputs) * width, 0.5F, random));
                auto const& bytes = numbers.back().bytes;
                tensors.push_back({s.type,
                                   {s.outputs, inputs},
                                   {reinterpret_cast<std::byte const*>(bytes.data()), bytes.size()},
                                   s.interleaved});
                std::size_t const here = bytes.size() * (s.type == tensor_type::f16 ? 2 : 1);
                stored_bytes += here;
                panel_bytes += here / static_cast<std::size_t>(s.outputs) * 16;
            }
            std::vector<linear_maker::part> parts;
            for (std::size_t i = 0; i < shapes.size(); ++i) parts.push_back({&tensors[i], shapes[i].outputs});
            auto const due_of = linear_maker(precision::f32, multiplier::ours, 1, most).make(parts, inputs, threads);
            auto const made = linear_maker(precision::stored, multiplier::ours, 1, most).make(parts, inputs, threads);
            ASSERT_EQ(made->inputs(), inputs);
            ASSERT_EQ(made->outputs(), due_of->outputs());
            // As many bytes as in the file, but for the last panel of each part.
            EXPECT_GE(made->bytes(), stored_bytes);
            EXPECT_LE(made->bytes(), stored_bytes + panel_bytes);
            auto const multiply = [&](linear const& by, std::int32_t count, int active) {
                aligned_array<std::byte> const workspace(by.workspace_bytes(count));
                std::vector<float> output(static_cast<std::size_t>(count * by.outputs()));
                by.multiply(threads, active, rows.data(), count, output.data(), workspace.data());
                return output;
            };
            auto const due = multiply(*due_of, most, 1);
            for (std::int32_t count = 1; count <= most; ++count)
                for (int const active : {1, 3})
                    ASSERT_TRUE(same_bits(multiply(*made, count, active),
                                          std::span(due).first(static_cast<std::size_t>(count * made->outputs()))))
                        << made->description() << ", " << inputs << " inputs, " << count << " rows";
            // Inputs of 8 bits: near that, and the same bits whatever the rows and threads.
            auto const of_bytes =
                linear_maker(precision::stored8, multiplier::ours, 1, most).make(parts, inputs, threads);
            auto const rounded = multiply(*of_bytes, most, 1);
            for (std::size_t i = 0; i < due.size(); ++i)
                ASSERT_NEAR(rounded[i], due[i], 0.05F * std::sqrt(static_cast<float>(inputs)))
                    << of_bytes->description() << ", " << inputs << " inputs";
            for (std::int32_t count = 1; count < most; ++count)
                for (int const active : {1, 3})
                    ASSERT_TRUE(same_bits(multiply(*of_bytes, count, active),
                                          std::span(rounded).first(static_cast<std::size_t>(count * made->outputs()))))
                        << of_bytes->description() << ", " << inputs << " inputs, " << count << " rows";
        }
    }
}

TEST(linear_maker, q8_0_multiplies_weights_rounded_to_blocks) {
    std::mt19937 random(5);
    std::normal_distribution<float> normal;
    team threads(2);
    constexpr std::int32_t rows = 7;
    constexpr std::int32_t outputs = 41;
    for (tensor_type const type : {tensor_type::bf16, tensor_type::f32, tensor_type::f16, tensor_type::q4_1})
        for (std::int32_t const inputs : {64, 288, 48}) {
            if (inputs == 48 && type == tensor_type::q4_1) continue;  // has no such rows
            auto const width = static_cast<std::size_t>(inputs);
            auto const stored = some_numbers(type, width * outputs, 0.5F, random);
            tensor_view const tensor{type,
                                     {outputs, inputs},
                                     {reinterpret_cast<std::byte const*>(stored.bytes.data()), stored.bytes.size()}};
            // What is in blocks, or in rows of parts of blocks, stays as it is.
            bool const stays = type == tensor_type::q4_1 || inputs % 32 != 0;
            std::vector<std::byte> blocks(width / 32 * 34 * outputs);
            if (!stays) round_to_blocks(stored.values, blocks.data());
            tensor_view const made{tensor_type::q8_0, {outputs, inputs}, blocks};
            auto const product_of_all = [&](tensor_view const& of, precision numbers) {
                auto const by =
                    linear_maker(numbers, multiplier::ours, 1, rows).make({{&of, outputs}}, inputs, threads);
                std::mt19937 same(9);
                std::vector<float> from(width * rows), output(static_cast<std::size_t>(rows * outputs));
                for (float& x : from) x = normal(same);
                aligned_array<std::byte> const workspace(by->workspace_bytes(rows));
                by->multiply(threads, 2, from.data(), rows, output.data(), workspace.data());
                return output;
            };
            EXPECT_TRUE(same_bits(product_of_all(tensor, precision::q8_0),
                                  product_of_all(stays ? tensor : made, precision::stored8)))
                << static_cast<int>(type) << ", " << inputs << " inputs";
        }
}

TEST(loaded_bytes, are_those_of_the_precision) {
    EXPECT_EQ(loaded_bytes(3200, tensor_type::bf16, precision::bf16), 6400U);
    EXPECT_EQ(loaded_bytes(3200, tensor_type::bf16, precision::int8), 3200U);
    EXPECT_EQ(loaded_bytes(3200, tensor_type::bf16, precision::q8_0), 3400U);
    EXPECT_EQ(loaded_bytes(3200, tensor_type::q4_1, precision::q8_0), 2000U);
    EXPECT_EQ(loaded_bytes(3200, tensor_type::q4_1, precision::stored8), 2000U);
    EXPECT_EQ(loaded_bytes(3200, tensor_type::q4_1, precision::f32), 12800U);
}

TEST(numbers_of_drafter, are_those_of_the_target_or_of_blocks) {
    EXPECT_EQ(numbers_of_drafter(precision::automatic, precision::bf16), precision::bf16);
    EXPECT_EQ(numbers_of_drafter(precision::automatic, precision::stored8), precision::q8_0);
    EXPECT_EQ(numbers_of_drafter(precision::automatic, precision::stored), precision::stored);
    EXPECT_EQ(numbers_of_drafter(precision::bf16, precision::stored8), precision::bf16);
}

TEST(linear_maker, refuses_what_onednn_has_not) {
    for (precision const numbers : {precision::int8, precision::stored, precision::stored8, precision::q8_0})
        EXPECT_MESSAGE(message_of<std::runtime_error>([&] { linear_maker(numbers, multiplier::onednn, 1, 64); }),
                       "oneDNN");
}

}  // namespace
}  // namespace linear_test
