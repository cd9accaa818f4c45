// Spans: what converts to them and from them, and what must not.
#include "multidraft/base/span.hpp"

#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <ranges>
#include <span>
#include <type_traits>
#include <vector>

namespace span_test {
namespace {

using multidraft::span;

static_assert(std::is_trivially_copyable_v<span<int>>);
static_assert(std::is_convertible_v<span<int>, span<int const>>);
static_assert(!std::is_convertible_v<span<int const>, span<int>>);
static_assert(std::is_convertible_v<std::vector<int>&, span<int>>);
static_assert(std::is_convertible_v<std::vector<int> const&, span<int const>>);
static_assert(!std::is_convertible_v<std::vector<int> const&, span<int>>);
static_assert(!std::is_convertible_v<std::vector<int>&, span<long>>);
static_assert(!std::is_convertible_v<std::vector<int>, span<int>>, "it would write to what is gone");
static_assert(!std::is_constructible_v<span<int>, std::vector<int>>);
static_assert(std::is_convertible_v<std::vector<int>, span<int const>>, "an argument lives until the call returns");
static_assert(std::is_convertible_v<span<int>, span<int const>> && std::is_convertible_v<std::span<int>, span<int>>,
              "a view may be temporary");
struct base {};
struct derived : base {
    int more;
};
static_assert(!std::is_convertible_v<std::vector<derived>&, span<base>>, "steps of another size");
static_assert(!std::is_convertible_v<span<derived>, span<base>>, "steps of another size");
static_assert(std::is_convertible_v<std::span<int>, span<int const>>);
static_assert(std::is_convertible_v<span<int>, std::span<int>>);
static_assert(std::is_convertible_v<span<int>, std::span<int const>>);
static_assert(std::ranges::contiguous_range<span<int>> && std::ranges::sized_range<span<int>>);
static_assert(std::ranges::borrowed_range<span<int>> && std::ranges::view<span<int>>);

TEST(span, views_what_it_is_made_of) {
    std::vector<int> numbers{1, 2, 3, 4, 5};
    span const all(numbers);
    static_assert(std::is_same_v<decltype(all), span<int> const>);
    EXPECT_EQ(all.data(), numbers.data());
    EXPECT_EQ(all.size(), 5U);
    EXPECT_FALSE(all.empty());
    EXPECT_EQ(all[0], 1);
    EXPECT_EQ(all.back(), 5);
    EXPECT_EQ(std::accumulate(all.begin(), all.end(), 0), 15);
    all[1] = 7;
    EXPECT_EQ(numbers[1], 7);
    span const constant(static_cast<std::vector<int> const&>(numbers));
    static_assert(std::is_same_v<decltype(constant), span<int const> const>);
    int array[] = {4, 5};
    EXPECT_EQ(span<int const>(array).size(), 2U);
    std::array<int, 3> const fixed{1, 2, 3};
    EXPECT_EQ(span<int const>(fixed).back(), 3);
}

TEST(span, is_cut) {
    int const array[] = {0, 1, 2, 3, 4};
    span<int const> const all(array);
    EXPECT_EQ(all.first(0).size(), 0U);
    EXPECT_TRUE(all.first(0).empty());
    EXPECT_EQ(all.first(2).back(), 1);
    EXPECT_EQ(all.subspan(3).size(), 2U);
    EXPECT_EQ(all.subspan(3)[0], 3);
    EXPECT_TRUE(all.subspan(5).empty());
    EXPECT_EQ(all.subspan(1, 2).back(), 2);
}

TEST(span, of_nothing) {
    span<int> const nothing;
    EXPECT_TRUE(nothing.empty());
    EXPECT_EQ(nothing.data(), nullptr);
    EXPECT_EQ(nothing.begin(), nothing.end());
    span<int> const braces = {};
    EXPECT_TRUE(braces.empty());
    EXPECT_TRUE(span<int const>(std::vector<int>{}).empty());
}

TEST(span, becomes_a_standard_span_and_back) {
    std::vector<int> numbers{1, 2, 3};
    auto const make = [&] { return span<int>(numbers); };
    std::span<int> const standard = make();
    EXPECT_EQ(standard.data(), numbers.data());
    EXPECT_EQ(standard.size(), 3U);
    span<int const> const again = standard;
    EXPECT_EQ(again.data(), numbers.data());
    EXPECT_EQ(again.size(), 3U);
}

TEST(span, works_in_constant_expressions) {
    static constexpr int array[] = {1, 2, 3};
    constexpr span<int const> all(array, 3);
    static_assert(all.size() == 3 && all[1] == 2 && all.subspan(1).back() == 3);
}

}  // namespace
}  // namespace span_test
