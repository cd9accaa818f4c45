// Acceptance rates of the verifiers: against golden values, enumerations of the drafts and each other.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "multidraft/analysis/acceptance.hpp"
#include "multidraft/analysis/alpha_star.hpp"
#include "multidraft/analysis/race.hpp"
#include "multidraft/testing/exact_law.hpp"
#include "multidraft/testing/kinds.hpp"
#include "support/golden.hpp"
#include "support/refusal.hpp"

namespace acceptance_test {
namespace {

namespace analysis = multidraft::analysis;
using multidraft::index_t;
using multidraft::testing::golden_cases;
using multidraft::testing::refusal;
using row = std::vector<double>;

constexpr double tolerance = 1e-12;

TEST(acceptance, equals_the_golden_values) {
    int small = 0;
    for (auto const& c : golden_cases()) {
        EXPECT_NEAR(analysis::acceptance_recursive_iid(c.p, c.q, c.n), c.alpha("recursive_iid"), tolerance);
        if (!c.has_alpha("naive_iid")) continue;
        ++small;
        EXPECT_NEAR(analysis::acceptance_recursive_sequential(c.p, c.q, c.n), c.alpha("recursive_sequential"),
                    tolerance);
        EXPECT_NEAR(analysis::acceptance_naive_iid(c.p, c.q, c.n), c.alpha("naive_iid"), tolerance);
        EXPECT_NEAR(analysis::acceptance_naive_sequential(c.p, c.q, c.n), c.alpha("naive_sequential"), tolerance);
    }
    EXPECT_GE(small, 24);
}

TEST(acceptance, never_exceeds_the_optimum) {
    for (auto const& c : golden_cases()) {
        double const best_iid = analysis::alpha_star_iid(c.p, c.q, c.n) + tolerance;
        EXPECT_LE(analysis::acceptance_recursive_iid(c.p, c.q, c.n), best_iid);
        EXPECT_LE(analysis::acceptance_naive_iid(c.p, c.q, c.n), best_iid);
        double const best = analysis::alpha_star_sequential(c.p, c.q, c.n) + tolerance;
        EXPECT_LE(analysis::acceptance_naive_sequential(c.p, c.q, c.n), best);
        if (c.p.size() <= 6) {
            EXPECT_LE(analysis::acceptance_recursive_sequential(c.p, c.q, c.n), best);
        }
        EXPECT_EQ(analysis::acceptance_naive_deterministic(c.p, c.q, c.n),
                  analysis::alpha_star_deterministic(c.p, c.q, c.n));
    }
}

TEST(acceptance, of_one_candidate_is_that_of_speculative_sampling) {
    for (auto const& c : golden_cases()) {
        double const overlap = analysis::acceptance_speculative_sampling(c.p, c.q);
        EXPECT_NEAR(analysis::acceptance_recursive_iid(c.p, c.q, 1), overlap, tolerance);
        EXPECT_NEAR(analysis::acceptance_recursive_sequential(c.p, c.q, 1), overlap, tolerance);
        EXPECT_NEAR(analysis::alpha_star_iid(c.p, c.q, 1), overlap, tolerance);
        double agree = 0;
        for (std::size_t i = 0; i < c.p.size(); ++i) agree += c.p[i] * c.q[i];
        EXPECT_NEAR(analysis::acceptance_naive_iid(c.p, c.q, 1), agree, tolerance);
        EXPECT_NEAR(analysis::acceptance_naive_sequential(c.p, c.q, 1), agree, tolerance);
    }
}

TEST(acceptance, of_recursive_rejection_is_one_for_equal_rows) {
    row const p{0.5, 0.25, 0.125, 0.125};
    for (index_t n = 1; n <= 5; ++n) {
        EXPECT_EQ(analysis::acceptance_recursive_iid(p, p, n), 1);
        EXPECT_EQ(analysis::acceptance_recursive_sequential(p, p, n), 1);
    }
    EXPECT_EQ(analysis::acceptance_speculative_sampling(p, p), 1);
}

TEST(acceptance, of_one_hot_rows) {
    row const p{0.1, 0.7, 0.2};
    row const hot{0, 0, 1};
    for (index_t n = 1; n <= 5; ++n) {
        double const missed = std::pow(0.8, n);
        EXPECT_NEAR(analysis::acceptance_recursive_iid(p, hot, n), 0.2, tolerance);
        EXPECT_NEAR(analysis::acceptance_recursive_sequential(p, hot, n), 0.2, tolerance);
        EXPECT_NEAR(analysis::acceptance_naive_iid(p, hot, n), 0.2, tolerance);
        EXPECT_NEAR(analysis::acceptance_naive_sequential(p, hot, n), 0.2, tolerance);
        // A certain target accepts its token when it is drafted.
        EXPECT_NEAR(analysis::acceptance_recursive_iid(hot, p, n), 1 - missed, tolerance);
        EXPECT_NEAR(analysis::acceptance_naive_iid(hot, p, n), 1 - missed, tolerance);
        double const drafted = analysis::sequential_inclusion(p, n)[2];
        EXPECT_NEAR(analysis::acceptance_recursive_sequential(hot, p, n), drafted, tolerance);
        EXPECT_NEAR(analysis::acceptance_naive_sequential(hot, p, n), drafted, tolerance);
    }
    EXPECT_EQ(analysis::acceptance_recursive_iid(hot, hot, 2), 1);
    EXPECT_EQ(analysis::acceptance_recursive_sequential(hot, hot, 2), 1);
    EXPECT_EQ(analysis::acceptance_naive_iid(hot, hot, 2), 1);
    EXPECT_EQ(analysis::acceptance_naive_sequential(hot, hot, 2), 1);
    EXPECT_EQ(analysis::acceptance_naive_sequential(row{1}, row{1}, 4), 1);
}

/// The probability of every token to be among n draws without replacement, by enumeration.
void walk(row const& q, index_t left, double chance, std::vector<bool>& drawn, row& result) {
    double mass = 0;
    for (std::size_t i = 0; i < q.size(); ++i) mass += drawn[i] ? 0.0 : q[i];
    if (left == 0 || !(mass > 0)) return;
    for (std::size_t i = 0; i < q.size(); ++i) {
        if (drawn[i] || !(q[i] > 0)) continue;
        result[i] += chance * q[i] / mass;
        drawn[i] = true;
        walk(q, left - 1, chance * q[i] / mass, drawn, result);
        drawn[i] = false;
    }
}

TEST(sequential_inclusion, equals_the_enumeration) {
    using multidraft::testing::kind;
    for (kind const k : {kind::plain, kind::no_mass, kind::narrow_draft, kind::one_hot_draft}) {
        for (std::uint64_t seed = 0; seed < 10; ++seed) {
            auto const models = multidraft::testing::random_models(k, 6, 0, seed);
            for (index_t n = 1; n <= 6; ++n) {
                row const& q = models.draft[0];
                row expected(q.size(), 0.0);
                std::vector<bool> drawn(q.size(), false);
                walk(q, n, 1, drawn, expected);
                auto const got = analysis::sequential_inclusion(q, n);
                for (std::size_t i = 0; i < q.size(); ++i) EXPECT_NEAR(got[i], expected[i], tolerance);
            }
        }
    }
}

TEST(sequential_inclusion, survives_extreme_rows) {
    auto const got = analysis::sequential_inclusion(row{1, 1e-40, 2e-40, 1e-40}, 2);
    EXPECT_NEAR(got[0], 1, tolerance);
    EXPECT_NEAR(got[1], 0.25, tolerance);
    EXPECT_NEAR(got[2], 0.5, tolerance);
    EXPECT_NEAR(got[3], 0.25, tolerance);
}

TEST(sequential_inclusion, sums_to_the_number_of_draws) {
    for (auto const& c : golden_cases()) {
        for (index_t n : {1, 2, 5, 16}) {
            double sum = 0;
            for (double const x : analysis::sequential_inclusion(c.q, n)) sum += x;
            EXPECT_NEAR(sum, std::min(n, static_cast<index_t>(c.q.size())), 1e-11);
        }
    }
}

TEST(acceptance, refuses_what_is_no_distribution) {
    row const p{0.5, 0.5};
    auto const all = [&](row const& a, row const& b, index_t n) {
        std::vector<std::string> const messages{
            refusal([&] { static_cast<void>(analysis::acceptance_recursive_iid(a, b, n)); }),
            refusal([&] { static_cast<void>(analysis::acceptance_recursive_sequential(a, b, n)); }),
            refusal([&] { static_cast<void>(analysis::acceptance_naive_iid(a, b, n)); }),
            refusal([&] { static_cast<void>(analysis::acceptance_naive_sequential(a, b, n)); }),
            refusal([&] { static_cast<void>(analysis::acceptance_naive_deterministic(a, b, n)); })};
        for (auto const& m : messages) EXPECT_EQ(m, messages.front());
        return messages.front();
    };
    EXPECT_EQ(all({1.5, -0.5}, p, 1), "p[1] = -0.5: a probability is finite and not negative");
    EXPECT_EQ(all(p, {0.5, 0.5, 0}, 1), "q.size = 3: target and draft have one vocabulary");
    EXPECT_EQ(all(p, {0.5, 0.75}, 1), "sum(q) = 1.25: the probabilities of a row sum to 1");
    EXPECT_EQ(all(p, p, -1), "n = -1: one token or more is drafted");
    EXPECT_EQ(refusal([&] { static_cast<void>(analysis::acceptance_speculative_sampling(p, {})); }),
              "q.size = 0: target and draft have one vocabulary");
}

TEST(acceptance, refuses_an_enumeration_that_would_not_end) {
    row const p(1001, 1.0 / 1001);
    auto const text = refusal([&] { static_cast<void>(analysis::acceptance_recursive_sequential(p, p, 3)); });
    EXPECT_EQ(text.find("n = 3: too many rejected prefixes"), 0U) << text;
    EXPECT_NE(text.find("Monte Carlo"), std::string::npos) << text;
    EXPECT_NEAR(analysis::acceptance_recursive_sequential(p, p, 2), 1, tolerance);
}

}  // namespace
}  // namespace acceptance_test
