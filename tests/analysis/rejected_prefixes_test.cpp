// Recursive rejection without replacement in closed form: against residuals that are written out, and the estimates.
#include "multidraft/analysis/rejected_prefixes.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "multidraft/analysis/acceptance.hpp"
#include "multidraft/analysis/ratio_rows.hpp"
#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/testing/exact_law.hpp"
#include "multidraft/testing/kinds.hpp"
#include "multidraft/testing/test_numbers.hpp"
#include "support/golden.hpp"

namespace rejected_prefixes_test {
namespace {

namespace analysis = multidraft::analysis;
using multidraft::index_t;
using multidraft::invalid_input;
using multidraft::testing::test_numbers;
using row = std::vector<double>;

TEST(rejected_prefixes, equal_the_golden_values) {
    int checked = 0;
    for (auto const& c : multidraft::testing::golden_cases()) {
        if (!c.has_alpha("recursive_sequential")) continue;
        EXPECT_NEAR(analysis::acceptance_by_rejected_prefixes(analysis::ratio_rows(c.p, c.q), c.n),
                    c.alpha("recursive_sequential"), 1e-12);
        ++checked;
    }
    EXPECT_GE(checked, 24);
}

TEST(rejected_prefixes, equal_residuals_that_are_written_out) {
    for (auto const k : multidraft::testing::all_kinds) {
        for (index_t const vocabulary : {1, 2, 3, 5, 9}) {
            for (std::uint64_t seed = 0; seed < 4; ++seed) {
                auto const models = multidraft::testing::random_models(k, vocabulary, 0, seed);
                analysis::ratio_rows const rows(models.target[0], models.draft[0]);
                for (index_t n = 1; n <= 5; ++n)
                    EXPECT_NEAR(analysis::acceptance_by_rejected_prefixes(rows, n),
                                analysis::acceptance_recursive_sequential(models.target[0], models.draft[0], n), 1e-12)
                        << multidraft::testing::name_of(k) << ", V = " << vocabulary << ", n = " << n;
            }
        }
    }
}

/// Rows whose logits are normal; the draft's are those of the target and as much noise.
struct pair {
    row p;
    row q;
};

pair random_pair(std::size_t size, double sharpness, std::uint64_t seed) {
    test_numbers numbers(seed);
    pair result{row(size), row(size)};
    for (std::size_t i = 0; i < size; ++i) {
        double const logit = numbers.normal();
        result.p[i] = std::exp(sharpness * logit);
        result.q[i] = std::exp(sharpness * (logit + numbers.normal()));
    }
    multidraft::testing::normalise(result.p);
    multidraft::testing::normalise(result.q);
    return result;
}

TEST(rejected_prefixes, keep_their_digits_in_sharp_rows) {
    for (double const sharpness : {0.3, 3.0, 10.0, 30.0})
        for (std::uint64_t seed = 0; seed < 5; ++seed) {
            auto const [p, q] = random_pair(12, sharpness, seed);
            for (index_t n = 1; n <= 4; ++n)
                EXPECT_NEAR(analysis::acceptance_by_rejected_prefixes(analysis::ratio_rows(p, q), n),
                            analysis::acceptance_recursive_sequential(p, q, n), 1e-12);
        }
}

TEST(rejected_prefixes, are_walked_up_to_a_million) {
    auto const [p, q] = random_pair(2000, 2.0, 3);
    EXPECT_NEAR(analysis::acceptance_by_rejected_prefixes(analysis::ratio_rows(p, q), 2),
                analysis::acceptance_recursive_sequential(p, q, 2), 1e-12);
    EXPECT_TRUE(analysis::can_walk_prefixes(1000000, 2));
    EXPECT_TRUE(analysis::can_walk_prefixes(1000, 3));
    EXPECT_FALSE(analysis::can_walk_prefixes(1001, 3));
    EXPECT_TRUE(analysis::can_walk_prefixes(3, 100));  // three are drafted
    analysis::ratio_rows const rows(p, q);
    EXPECT_THROW((void)analysis::acceptance_by_rejected_prefixes(rows, 3), invalid_input);
    EXPECT_THROW((void)analysis::acceptance_by_rejected_prefixes(rows, 0), invalid_input);
}

TEST(estimate_recursive_sequential, is_right_within_its_error) {
    // 60 estimates: none may be 5 errors off, and not many 2. Prefixes rarer than a sample may be missed: 1e-6.
    int far = 0;
    for (double const sharpness : {0.3, 1.0, 3.0, 10.0}) {
        for (std::uint64_t seed = 0; seed < 5; ++seed) {
            auto const [p, q] = random_pair(30, sharpness, 100 + seed);
            analysis::ratio_rows const rows(p, q);
            for (index_t const n : {2, 3, 4}) {
                double const exact = analysis::acceptance_by_rejected_prefixes(rows, n);
                auto const estimate = analysis::estimate_recursive_sequential(rows, n, 16384, seed);
                EXPECT_NEAR(estimate.mean, exact, 5 * estimate.standard_error + 1e-6);
                far += std::abs(estimate.mean - exact) > 2 * estimate.standard_error + 1e-6 ? 1 : 0;
            }
        }
    }
    EXPECT_LE(far, 9);
}

TEST(estimate_recursive_sequential, depends_on_its_seed_alone_and_has_a_small_error) {
    auto const [p, q] = random_pair(5000, 2.0, 5);
    analysis::ratio_rows const rows(p, q);
    auto const first = analysis::estimate_recursive_sequential(rows, 3, 16384, 1);
    auto const again = analysis::estimate_recursive_sequential(rows, 3, 16384, 1);
    auto const other = analysis::estimate_recursive_sequential(rows, 3, 16384, 2);
    EXPECT_EQ(first.mean, again.mean);
    EXPECT_NE(first.mean, other.mean);
    EXPECT_GT(first.standard_error, 0);
    EXPECT_LT(first.standard_error, 1e-3);
    EXPECT_NEAR(first.mean, other.mean, 6 * (first.standard_error + other.standard_error));
    EXPECT_THROW((void)analysis::estimate_recursive_sequential(rows, 3, 31), invalid_input);
    EXPECT_THROW((void)analysis::estimate_recursive_sequential(rows, 0), invalid_input);
}

TEST(estimate_recursive_sequential, draws_from_rows_with_almost_all_mass_in_a_few_tokens) {
    // After the first rejection the next token comes from a tail of 1e-12.
    row q{1 - 1e-12, 6e-13, 4e-13, 0};
    row p{0.1, 0.2, 0.3, 0.4};
    q[0] = 1 - q[1] - q[2];
    analysis::ratio_rows const rows(p, q);
    auto const estimate = analysis::estimate_recursive_sequential(rows, 2);
    EXPECT_NEAR(estimate.mean, analysis::acceptance_recursive_sequential(p, q, 2), 5 * estimate.standard_error + 1e-9);
}

}  // namespace
}  // namespace rejected_prefixes_test
