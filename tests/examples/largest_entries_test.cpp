// The largest entries of a row against a sorted list, with equal ones and such as are no number.
#include "transformer/largest_entries.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

namespace largest_entries_test {
namespace {

using multidraft::examples::largest_entries;

std::vector<std::int32_t> sorted_out(std::vector<float> const& row, std::size_t count) {
    std::vector<std::int32_t> places(row.size());
    std::iota(places.begin(), places.end(), 0);
    std::ranges::stable_sort(places, [&](std::int32_t a, std::int32_t b) {
        return row[static_cast<std::size_t>(a)] > row[static_cast<std::size_t>(b)];
    });
    places.resize(count);
    std::ranges::sort(places);
    return places;
}

TEST(largest_entries, are_those_of_a_sorted_row) {
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    largest_entries largest;
    for (std::size_t const size : {1U, 2U, 15U, 16U, 17U, 500U, 4097U})
        for (bool const many_equal : {false, true}) {
            std::vector<float> row(size);
            for (float& x : row) x = many_equal ? std::round(2 * normal(random)) : normal(random);
            if (size > 10) row[7] = row[9] = -std::numeric_limits<float>::infinity();
            for (std::size_t const count : {1U, 2U, 12U, 128U, 4000U}) {
                if (count > size) continue;
                auto const found = largest.find(row, count);
                EXPECT_LT(found.not_a_number, 0);
                EXPECT_EQ(std::vector<std::int32_t>(found.places.begin(), found.places.end()), sorted_out(row, count))
                    << size << " entries, " << count << " of them";
            }
            auto const all = largest.find(row, size);
            EXPECT_EQ(all.places.size(), size);
        }
}

TEST(largest_entries, are_found_among_all_kinds_of_floats) {
    std::mt19937 random(4);
    constexpr float infinite = std::numeric_limits<float>::infinity();
    constexpr float tiny = std::numeric_limits<float>::denorm_min();
    constexpr float huge = std::numeric_limits<float>::max();
    std::vector<float> const kinds{0.0F, -0.0F, 1.0F, -1.0F, tiny, -tiny, huge, -huge, infinite, -infinite};
    largest_entries largest;
    for (std::size_t const size : {3U, 31U, 300U, 2000U}) {
        std::vector<float> row(size);
        for (float& x : row) x = kinds[random() % kinds.size()];
        for (std::size_t count = 1; count <= size; count += 1 + count / 2) {
            auto const found = largest.find(row, count);
            EXPECT_EQ(std::vector<std::int32_t>(found.places.begin(), found.places.end()), sorted_out(row, count))
                << size << " entries, " << count << " of them";
        }
    }
}

TEST(largest_entries, say_where_there_is_no_number) {
    largest_entries largest;
    std::vector<float> row(100, 1.0F);
    row[60] = row[99] = std::numeric_limits<float>::quiet_NaN();
    auto const found = largest.find(row, 5);
    EXPECT_EQ(found.not_a_number, 60);
    EXPECT_TRUE(found.places.empty());
}

}  // namespace
}  // namespace largest_entries_test
