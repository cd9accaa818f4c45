// Truncation thresholds against a sort: keys of all signs and sizes, ties, masses.
#include "multidraft/rows/truncation.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "multidraft/group/host_group.hpp"
#include "multidraft/testing/exact_law.hpp"
#include "multidraft/testing/kinds.hpp"

namespace select_test {
namespace {

using multidraft::host_group;
using multidraft::index_t;
using multidraft::threshold_of_mass;
using multidraft::threshold_of_mass_in_list;
using multidraft::threshold_of_top_k;
using multidraft::truncation_threshold;
using multidraft::testing::test_numbers;

constexpr host_group g;

template <class Real>
struct entries {
    Real const* data;
    Real operator()(index_t i) const { return data[i]; }
};

template <class Real>
std::vector<std::size_t> sorted(std::vector<Real> const& row) {
    std::vector<std::size_t> order(row.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return row[a] > row[b] || (row[a] == row[b] && a < b); });
    return order;
}

template <class Real>
void expect_kept(truncation_threshold<Real> const& kept, std::vector<Real> const& row, std::size_t count) {
    auto const order = sorted(row);
    for (std::size_t k = 0; k < order.size(); ++k)
        ASSERT_EQ(kept.keeps(row[order[k]], static_cast<index_t>(order[k])), k < count)
            << k << " of " << row.size() << ", kept " << count;
}

template <class Real>
class select_of : public testing::Test {};
using reals = testing::Types<float, double>;
TYPED_TEST_SUITE(select_of, reals);

TYPED_TEST(select_of, keys_order_as_numbers_do) {
    using real = TypeParam;
    using limits = std::numeric_limits<real>;
    std::vector<real> const row{-limits::infinity(),
                                -limits::max(),
                                real(-1),
                                -limits::min(),
                                -limits::denorm_min(),
                                real(0),
                                limits::denorm_min(),
                                limits::min(),
                                real(1),
                                std::nextafter(real(1), real(2)),
                                limits::max(),
                                limits::infinity()};
    for (std::size_t i = 0; i < row.size(); ++i) {
        EXPECT_EQ(multidraft::detail::from_key<real>(multidraft::detail::to_key(row[i])), row[i]);
        if (i == 0) continue;
        EXPECT_LT(multidraft::detail::to_key(row[i - 1]), multidraft::detail::to_key(row[i]));
    }
    EXPECT_EQ(multidraft::detail::to_key(real(-0.0)), multidraft::detail::to_key(real(0)));
}

TYPED_TEST(select_of, keeps_the_largest) {
    using real = TypeParam;
    constexpr real low = -std::numeric_limits<real>::infinity();
    test_numbers numbers(1);
    for (index_t const n : {1, 2, 9, 300, 9000}) {
        for (index_t const levels : {1, 2, 10, 0}) {
            std::vector<real> row;
            for (index_t i = 0; i < n; ++i) {
                real const x = levels > 0 ? static_cast<real>(numbers.below(levels) - levels / 2)
                                          : static_cast<real>((numbers() - 0.5) * std::exp(60 * (numbers() - 0.5)));
                row.push_back(numbers() < 0.2 ? low : x);
            }
            for (index_t k : {1, 2, 3, 127, 128, 129, n / 2, n - 1, n}) {
                if (k < 1 || k > n) continue;
                expect_kept(threshold_of_top_k(g, n, entries<real>{row.data()}, k), row, static_cast<std::size_t>(k));
                if (this->HasFatalFailure()) return;
            }
        }
    }
}

TYPED_TEST(select_of, keeps_the_smallest_set_that_reaches_a_mass) {
    using real = TypeParam;
    test_numbers numbers(2);
    for (index_t const n : {1, 2, 9, 60, 5000}) {
        for (index_t const levels : {1, 3, 20}) {
            std::vector<real> row;
            std::vector<std::int32_t> mass;
            for (index_t i = 0; i < n; ++i) {
                index_t const level = numbers.below(levels);
                row.push_back(static_cast<real>(level));
                mass.push_back(level == 0 && levels > 1 ? 0 : (level + 1) * 100000007);  // the lowest have none
            }
            mass[0] = levels > 1 && row[0] == real(0) ? 0 : mass[0];
            auto const order = sorted(row);
            std::uint64_t total = 0;
            for (auto const m : mass) total += static_cast<std::uint64_t>(m);
            if (total == 0) continue;
            for (int k = 0; k < 60; ++k) {
                auto const wanted = k == 0 ? std::uint64_t{1}
                                    : k == 1
                                        ? total
                                        : 1 + static_cast<std::uint64_t>(numbers() * static_cast<double>(total - 1));
                std::uint64_t sum = 0;
                std::size_t count = 0;
                while (sum < wanted) sum += static_cast<std::uint64_t>(mass[order[count++]]);
                auto const kept = threshold_of_mass(g, n, entries<real>{row.data()}, entries<std::int32_t>{mass.data()},
                                                    [&](std::uint64_t all) {
                                                        EXPECT_EQ(all, total);
                                                        return wanted;
                                                    });
                expect_kept(kept, row, count);
                if (this->HasFatalFailure()) return;
                // Any valid `light` gives the same result.
                for (index_t level = 0; level < levels; ++level) {
                    std::uint64_t lower = 0;
                    for (std::size_t i = 0; i < row.size(); ++i)
                        if (row[i] <= static_cast<real>(level)) lower += static_cast<std::uint64_t>(mass[i]);
                    if (lower > total - wanted) break;
                    auto const same = threshold_of_mass(
                        g, n, entries<real>{row.data()}, entries<std::int32_t>{mass.data()},
                        [&](std::uint64_t all) {
                            EXPECT_EQ(all, total);
                            return wanted;
                        },
                        static_cast<real>(level));
                    ASSERT_EQ(same.value, kept.value);
                    ASSERT_EQ(same.last, kept.last);
                }
                std::vector<multidraft::token_id> const list(order.begin(), order.end());
                auto const listed = threshold_of_mass_in_list(
                    multidraft::span<multidraft::token_id const>(list), entries<real>{row.data()},
                    entries<std::int32_t>{mass.data()}, [&](std::uint64_t all) {
                        EXPECT_EQ(all, total);
                        return wanted;
                    });
                ASSERT_EQ(listed.value, kept.value);
                ASSERT_EQ(listed.last, kept.last);
            }
        }
    }
}

// Equal entries, some of which were truncated before: those have no mass and are not part of the tie.
TYPED_TEST(select_of, counts_only_ties_with_mass) {
    using real = TypeParam;
    std::vector<real> const row(10, real(4));
    for (index_t const alive : {1, 2, 5, 9}) {
        std::vector<std::int32_t> mass(10, 0);
        std::fill_n(mass.begin(), alive, 7);
        for (index_t count = 1; count <= alive; ++count) {
            for (int const short_of : {0, 3, 6}) {
                auto const wanted = static_cast<std::uint64_t>(7 * count - short_of);
                auto const kept =
                    threshold_of_mass(g, 10, entries<real>{row.data()}, entries<std::int32_t>{mass.data()},
                                      [&](std::uint64_t) { return wanted; });
                for (index_t i = 0; i < alive; ++i)
                    ASSERT_EQ(kept.keeps(real(4), i), i < count) << alive << ' ' << count;
            }
        }
    }
}

// More ties than a float can count.
TEST(select, keeps_a_number_of_very_many_ties) {
    index_t const n = (1 << 24) + 5000;
    std::vector<float> row(static_cast<std::size_t>(n), 1.0F);
    for (index_t const k : {1, 4096, (1 << 24) - 1, (1 << 24) + 1, (1 << 24) + 4777, n - 1})
        EXPECT_EQ(threshold_of_top_k(g, n, entries<float>{row.data()}, k).last, k - 1);
    row[3] = 2.0F;  // one more that counts, without a tie
    EXPECT_EQ(threshold_of_top_k(g, n, entries<float>{row.data()}, (1 << 24) + 1).last, 1 << 24);
    row[3] = 0.0F;
    EXPECT_EQ(threshold_of_top_k(g, n, entries<float>{row.data()}, (1 << 24) + 1).last, (1 << 24) + 1);
}

TYPED_TEST(select_of, without_a_cut_keeps_all) {
    using real = TypeParam;
    truncation_threshold<real> const all;
    for (real const x : {-std::numeric_limits<real>::infinity(), real(0), std::numeric_limits<real>::max()})
        EXPECT_TRUE(all.keeps(x, 2147483647));
}

}  // namespace
}  // namespace select_test
