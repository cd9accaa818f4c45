// Rows in an engine's memory: every type and stride gives the same as a copy in float, in every operation.
#include "multidraft/rows/row_view.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <type_traits>
#include <vector>

#include "multidraft/base/float16.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/probabilities.hpp"
#include "multidraft/rows/softmax.hpp"
#include "multidraft/testing/exact_law.hpp"
#include "multidraft/testing/kinds.hpp"

namespace engine {

/// An engine's own element type: eighths in a byte.
struct eighths {
    std::int8_t value;
};
float to_real(eighths x) noexcept { return static_cast<float>(x.value) / 8.0F; }

/// An engine's own layout: even entries first, then the odd ones.
struct halves {
    std::int64_t size = 0;
    static constexpr int alignment = 0;
    std::int64_t operator()(multidraft::index_t i) const noexcept { return i / 2 + (i % 2 != 0 ? (size + 1) / 2 : 0); }
};

}  // namespace engine

namespace {

using multidraft::bfloat16;
using multidraft::float16;
using multidraft::host_group;
using multidraft::index_t;
using multidraft::process_logits;
using multidraft::row_view;
using multidraft::rows_view;
using multidraft::sampling_params;
using multidraft::strided;
using multidraft::testing::test_numbers;

constexpr host_group g;

static_assert(std::is_same_v<row_view<float16>::real, float> && std::is_same_v<row_view<bfloat16>::real, float>);
static_assert(std::is_same_v<row_view<float>::real, float> && std::is_same_v<row_view<double>::real, double>);
static_assert(std::is_trivially_copyable_v<row_view<float16, strided>>);

/// Every operation gives the bits that a contiguous copy in float gives.
template <class View>
void expect_equal_to_its_copy(View row) {
    index_t const n = row.size();
    using real = typename View::real;
    std::vector<real> copy;
    for (index_t i = 0; i < n; ++i) copy.push_back(row(i));
    row_view<real> const plain(copy.data(), n);
    EXPECT_EQ(g.sum(n, row), g.sum(n, plain));
    EXPECT_EQ(g.max(n, row), g.max(n, plain));
    EXPECT_EQ(g.argmax(n, row), g.argmax(n, plain));
    std::vector<multidraft::token_id> top(9);
    std::vector<multidraft::token_id> expected(9);
    g.top_k(n, row, top);
    g.top_k(n, plain, expected);
    EXPECT_EQ(top, expected);
    for (sampling_params const w : {sampling_params{}, sampling_params{0.0F, 0, 1.0F, 0.0F},
                                    sampling_params{0.7F, 40, 0.9F, 0.01F}, sampling_params{1.3F, 0, 0.5F, 0.0F}}) {
        auto const a = process_logits(g, row, w);
        auto const b = process_logits(g, plain, w);
        ASSERT_EQ(a.sums.total, b.sums.total);
        for (index_t c = 0; c < multidraft::chunks_of(n); ++c) ASSERT_EQ(a.sums.values[c], b.sums.values[c]);
        for (index_t i = 0; i < n; ++i) ASSERT_EQ(a.row(i), b.row(i)) << i;
        EXPECT_EQ(g.inverse_cdf(a.sums, n, multidraft::weight_of{a.row}, 0.37),
                  g.inverse_cdf(b.sums, n, multidraft::weight_of{b.row}, 0.37));
    }
}

template <class T>
std::vector<T> random_row(std::size_t n, std::uint64_t seed) {
    test_numbers numbers(seed);
    std::vector<T> row;
    for (std::size_t i = 0; i < n; ++i) row.push_back(T(static_cast<float>(12 * numbers() - 6)));
    return row;
}

template <class T>
class row_of : public testing::Test {};
using elements = testing::Types<float, double, float16, bfloat16>;
TYPED_TEST_SUITE(row_of, elements);

TYPED_TEST(row_of, reads_as_its_copy) {
    for (index_t const n : {1, 255, 4097, 32000}) {
        auto const row = random_row<TypeParam>(static_cast<std::size_t>(n) + 3, static_cast<std::uint64_t>(n));
        expect_equal_to_its_copy(row_view<TypeParam>(row.data(), n));
        expect_equal_to_its_copy(row_view<TypeParam>(row.data() + 3, n));  // no alignment is required
    }
}

TYPED_TEST(row_of, reads_with_strides) {
    auto const data = random_row<TypeParam>(3 * 5000, 7);
    expect_equal_to_its_copy(row_view<TypeParam, strided>(data.data() + 1, 5000, strided{3}));
    // A reversed row.
    row_view<TypeParam, strided> const reversed(data.data() + 4999, 5000, strided{-1});
    expect_equal_to_its_copy(reversed);
    EXPECT_EQ(reversed(0), multidraft::to_real(data[4999]));
    EXPECT_EQ(reversed(4999), multidraft::to_real(data[0]));
}

TEST(row_view, reads_an_engines_own_type_and_layout) {
    test_numbers numbers(3);
    std::vector<engine::eighths> data(5001);
    for (auto& x : data) x.value = static_cast<std::int8_t>(numbers.below(100) - 50);
    row_view<engine::eighths, engine::halves> const row(data.data(), 5001, engine::halves{5001});
    EXPECT_EQ(row(0), to_real(data[0]));
    EXPECT_EQ(row(1), to_real(data[2501]));
    EXPECT_EQ(row(5000), to_real(data[2500]));
    expect_equal_to_its_copy(row);
}

TEST(rows_view, are_rows_a_stride_apart) {
    std::vector<float> data(20);
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i);
    rows_view<float> const packed(data.data(), 4, 5);
    EXPECT_EQ(packed.rows(), 4);
    EXPECT_EQ(packed.size(), 5);
    EXPECT_EQ(packed(3).size(), 5);
    EXPECT_EQ(packed(3)(2), 17.0F);
    rows_view<float> const padded(data.data() + 1, 3, 4, 7);
    EXPECT_EQ(padded(2)(3), 18.0F);
    rows_view<float, strided> const transposed(data.data(), 5, 4, 1, strided{5});
    EXPECT_EQ(transposed(2)(3), 17.0F);
}

TEST(strided, offsets_have_64_bits) {
    EXPECT_EQ(strided{200000}(100000), std::int64_t{20000000000});
    EXPECT_EQ(multidraft::contiguous{}(7), 7);
}

}  // namespace
