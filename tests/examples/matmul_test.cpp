// Products by oneDNN: rows with the bits of any batch.
#include "transformer/matmul.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "examples/model_support.hpp"
#include "transformer/aligned_array.hpp"

namespace matmul_test {
namespace {

using multidraft::examples::aligned_array;
using multidraft::examples::matmul;
using multidraft::testing::same_bits;

TEST(transformer_matmul, rows_have_the_bits_of_any_batch) {
    for (auto const& [k, n] : {std::pair{40, 24}, {256, 512}, {688, 256}, {96, 1000}}) {
        matmul const products(k, n, dnnl::memory::data_type::f32, 64);
        ASSERT_FALSE(products.row_counts().empty());
        std::mt19937 random(3);
        std::normal_distribution<float> normal;
        auto const width = static_cast<std::size_t>(k);
        auto const columns = static_cast<std::size_t>(n);
        std::vector<float> matrix(width * columns);
        std::vector<float> rows(64 * width);
        for (float& w : matrix) w = normal(random);
        for (float& x : rows) x = normal(random);
        auto const packed = products.pack(matrix.data());
        aligned_array<float> const input(128 * width);
        aligned_array<float> const output(128 * columns);
        aligned_array<std::byte> const scratchpad(products.scratchpad_bytes() + 64);
        std::vector<float> expected;
        for (std::size_t count = 64; count > 0; --count) {
            std::size_t const first = 64 - count;  // at another place in each batch
            ASSERT_LE(products.padded(static_cast<std::int32_t>(count)), 128);
            std::copy_n(rows.data() + first * width, count * width, input.data());
            std::fill_n(output.data(), output.size(), -1.0F);
            products.run(packed, static_cast<std::int32_t>(count), reinterpret_cast<std::byte*>(input.data()),
                         output.data(), scratchpad.data());
            std::vector<float> const result(output.data(), output.data() + count * columns);
            if (expected.empty()) {
                expected = result;
                for (std::size_t j = 0; j < columns; ++j) {
                    double sum = 0;
                    for (std::size_t i = 0; i < width; ++i) sum += double{rows[i]} * double{matrix[j * width + i]};
                    ASSERT_NEAR(result[j], sum, 1e-3);
                }
            }
            ASSERT_TRUE(same_bits(result, std::span(expected).subspan(first * columns)))
                << k << " x " << n << ", " << count;
        }
    }
}

}  // namespace
}  // namespace matmul_test
