// Draws without replacement as a race: the integrals against sums over all drafts, each other and closed forms.
#include "multidraft/analysis/race.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "multidraft/analysis/acceptance.hpp"
#include "multidraft/base/config.hpp"
#include "multidraft/testing/test_numbers.hpp"

namespace race_test {
namespace {

namespace analysis = multidraft::analysis;
using multidraft::index_t;
using multidraft::testing::test_numbers;
using row = std::vector<double>;

/// A row whose logits are normal with this standard deviation: from flat to one token and nothing.
row random_row(std::size_t size, double sharpness, test_numbers& numbers) {
    row result(size);
    double sum = 0;
    for (double& x : result) sum += x = std::exp(sharpness * numbers.normal());
    for (double& x : result) x /= sum;
    return result;
}

TEST(race, decays_to_the_last_digits) {
    for (double x = 1e-300; x < 690; x *= 1.37) {
        analysis::detail::decay const e(x);
        EXPECT_NEAR(e.left(), std::exp(-x), 4e-16 * std::exp(-x)) << x;
        EXPECT_NEAR(e.gone(), -std::expm1(-x), 4e-16 * -std::expm1(-x)) << x;
    }
    EXPECT_EQ(analysis::detail::decay(0).left(), 1);
    EXPECT_EQ(analysis::detail::decay(0).gone(), 0);
    EXPECT_LT(analysis::detail::decay(1e300).left(), 1e-300);
    EXPECT_EQ(analysis::detail::decay(1e300).gone(), 1);
}

/// P(the first n draws without replacement lie in the first k tokens), by walking all drafts.
double inside_by_walk(row const& q, std::size_t k, index_t left, std::vector<bool>& drawn) {
    if (left == 0) return 1;
    double mass = 0;
    for (std::size_t i = 0; i < q.size(); ++i) mass += drawn[i] ? 0.0 : q[i];
    double result = 0;
    for (std::size_t i = 0; i < k; ++i) {
        if (drawn[i] || !(q[i] > 0)) continue;
        drawn[i] = true;
        result += q[i] / mass * inside_by_walk(q, k, left - 1, drawn);
        drawn[i] = false;
    }
    return result;
}

TEST(sequential_inside, equals_the_enumeration) {
    test_numbers numbers(11);
    for (double const sharpness : {0.1, 1.0, 4.0, 15.0, 40.0}) {
        for (std::size_t size = 1; size <= 7; ++size) {
            row const q = random_row(size, sharpness, numbers);
            for (index_t n = 1; n <= static_cast<index_t>(size); ++n) {
                auto const got = analysis::sequential_inside(q, n);
                ASSERT_EQ(got.size(), size + 1);
                for (std::size_t k = 0; k <= size; ++k) {
                    std::vector<bool> drawn(size, false);
                    EXPECT_NEAR(got[k], inside_by_walk(q, k, n, drawn), 1e-13)
                        << "sharpness " << sharpness << ", V = " << size << ", n = " << n << ", k = " << k;
                }
            }
        }
    }
}

TEST(sequential_inside, of_one_draw_is_the_mass_and_of_two_has_a_closed_form) {
    test_numbers numbers(12);
    for (double const sharpness : {0.5, 2.0, 8.0, 30.0}) {
        row const q = random_row(2000, sharpness, numbers);
        auto const one = analysis::sequential_inside(q, 1);
        auto const two = analysis::sequential_inside(q, 2);
        // Of x first: q(x) (q(H) - q(x)) / (1 - q(x)). What 1 - q(x) and q(H) - q(x) lose is summed instead.
        double inside = 0;
        for (std::size_t k = 0; k <= q.size(); k += k < 10 ? 1 : 199) {
            inside = std::accumulate(q.begin(), q.begin() + static_cast<std::ptrdiff_t>(k), 0.0);
            EXPECT_NEAR(one[k], std::min(inside, 1.0), 1e-13);
            double pairs = 0;
            for (std::size_t x = 0; x < k; ++x) {
                double others = 0;
                double rest = 0;
                for (std::size_t i = 0; i < q.size(); ++i) {
                    others += i < k && i != x ? q[i] : 0.0;
                    rest += i != x ? q[i] : 0.0;
                }
                pairs += q[x] * others / rest;
            }
            EXPECT_NEAR(two[k], pairs, 1e-13);
        }
    }
}

TEST(sequential_inside, counts_no_tokens_without_mass) {
    row const q{0.5, 0.3, 0.2, 0, 0};
    for (index_t n = 1; n <= 3; ++n) {
        auto const with = analysis::sequential_inside(q, n);
        auto const without = analysis::sequential_inside(row{0.5, 0.3, 0.2}, n);
        for (std::size_t k = 0; k <= 3; ++k) EXPECT_EQ(with[k], without[k]);
        EXPECT_EQ(with[4], 1);
        EXPECT_EQ(with[5], 1);
    }
}

TEST(sequential_drafted_mass, is_the_sum_over_the_inclusion_probabilities) {
    test_numbers numbers(13);
    for (double const sharpness : {0.1, 1.0, 4.0, 15.0, 40.0}) {
        for (std::size_t const size : {1U, 2U, 5U, 17U, 60U}) {
            row const p = random_row(size, sharpness / 2, numbers);
            row q = random_row(size, sharpness, numbers);
            if (size == 17) {
                double const rest = 1 - q[3];
                q[3] = 0;
                for (double& x : q) x /= rest;
            }
            for (index_t const n : {1, 2, 3, 5, 12}) {
                auto const inclusion = analysis::sequential_inclusion(q, n);
                double expected = 0;
                for (std::size_t i = 0; i < size; ++i) expected += p[i] * inclusion[i];
                EXPECT_NEAR(analysis::sequential_drafted_mass(q, p, n), expected, 2e-13)
                    << "sharpness " << sharpness << ", V = " << size << ", n = " << n;
            }
        }
    }
}

TEST(sequential_inclusion, of_tiny_rates_is_a_number) {
    for (double const x : analysis::sequential_inclusion(row{1, 1e-310, 1e-310}, 2))
        EXPECT_TRUE(x >= 0 && x <= 1 + 1e-9) << x;
    EXPECT_THROW(static_cast<void>(analysis::sequential_drafted_mass(row{0.5, 0.5}, row{1}, 1)),
                 multidraft::invalid_input);
    EXPECT_THROW(static_cast<void>(analysis::sequential_drafted_mass(row{0.5, 0.5}, row{1, 1}, 0)),
                 multidraft::invalid_input);
    EXPECT_THROW(static_cast<void>(analysis::sequential_inside(row{0.5, 0.5}, 0)), multidraft::invalid_input);
}

TEST(sequential_drafted_mass, of_many_draws_and_of_denormal_rates) {
    test_numbers numbers(14);
    row const q = random_row(400, 1.0, numbers);
    row const one(400, 1.0);
    for (index_t const n : {40, 120, 399}) EXPECT_NEAR(analysis::sequential_drafted_mass(q, one, n), n, 1e-10);
    // The race ends although the last token would arrive after the largest double.
    double const drafted = analysis::sequential_drafted_mass(row{1, 5e-324, 1e-323}, row{1, 1, 1}, 2);
    EXPECT_TRUE(drafted >= 1 && drafted <= 3) << drafted;
    auto const inside = analysis::sequential_inside(row{1, 1e-323, 5e-324}, 2);
    for (double const x : inside) EXPECT_TRUE(x >= 0 && x <= 1);
}

}  // namespace
}  // namespace race_test
