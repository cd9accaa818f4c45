// Counterexamples to formulas of the papers that have no test elsewhere (docs/errata.md).
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "multidraft/analysis/acceptance.hpp"
#include "multidraft/analysis/alpha_star.hpp"
#include "multidraft/analysis/block_efficiency.hpp"
#include "multidraft/research/joint_likelihood.hpp"

namespace errata_test {
namespace {

namespace analysis = multidraft::analysis;
namespace research = multidraft::research;
using row = std::vector<double>;

// [OptimalMDSD] 4.2.2: its formula for two draws without replacement, above the optimum and below it.
TEST(Errata, TheFormulaForDrawsWithoutReplacementIsNoBound) {
    row const p{0.15, 0.15, 0.15, 0.35, 0.20};
    row const q{0.05, 0.40, 0.40, 0.10, 0.05};
    EXPECT_NEAR(analysis::alpha_star_sequential(p, q, 2), 0.7667, 5e-5);
    EXPECT_NEAR(analysis::alpha_star_conditional_poisson(p, q, 2), 0.8188, 5e-5);
    row const other{0.05, 0.55, 0.10, 0.10, 0.20};
    row const draft{0.10, 0.30, 0.20, 0.20, 0.20};
    EXPECT_NEAR(analysis::alpha_star_sequential(other, draft, 2), 1, 1e-12);
    EXPECT_NEAR(analysis::alpha_star_conditional_poisson(other, draft, 2), 0.9885, 5e-5);
}

// [OptimalMDSD] (2): what is refused of draft i and becomes target j is the product of q_i - p_i and p_j - q_j, over
// the mass refused. With their sum the plan has not the target's law.
TEST(Errata, ThePlanOfOneDraftNeedsAProduct) {
    row const p{0.5, 0.3, 0.2};
    row const q{0.2, 0.3, 0.5};
    double const refused = 1 - analysis::acceptance_recursive_iid(p, q, 1);
    auto const error = [&](auto const& combine) {
        double worst = 0;
        for (std::size_t j = 0; j < p.size(); ++j) {
            double mass = std::min(p[j], q[j]);
            for (std::size_t i = 0; i < q.size(); ++i)
                if (i != j) mass += combine(std::max(q[i] - p[i], 0.0), std::max(p[j] - q[j], 0.0)) / refused;
            worst = std::max(worst, std::abs(mass - p[j]));
        }
        return worst;
    };
    EXPECT_LT(error([](double a, double b) { return a * b; }), 1e-12);
    EXPECT_GT(error([](double a, double b) { return a + b; }), 0.5);
}

// [ImprovingMCSD] 3.1: the decision model learns the chance that a draft is accepted, min(1, p/q); max(1, p/q) is none.
TEST(Errata, TheLabelOfADecisionModelIsAProbability) {
    row const p{0.5, 0.3, 0.2};
    row const q{0.2, 0.3, 0.5};
    double least = 0;
    double most = 0;
    for (std::size_t x = 0; x < q.size(); ++x) {
        least += q[x] * std::min(1.0, p[x] / q[x]);
        most += q[x] * std::max(1.0, p[x] / q[x]);
    }
    EXPECT_NEAR(least, analysis::acceptance_recursive_iid(p, q, 1), 1e-12) << "its mean is the acceptance rate";
    EXPECT_GT(most, 1);
}

// [MTAD] Theorem 3.6 without min(depth + 1, ..): a step of one drafted token emits two at most, and where the models
// are near the printed bound is a thousand.
TEST(Errata, AStepEmitsNoMoreThanItDrafted) {
    double const tau = 0.1;
    double const difference = -std::log(tau) / 1000;
    EXPECT_NEAR(-std::log(tau) / difference, 1000, 1e-9);
    EXPECT_EQ(research::least_mean_step(tau, difference, 1), 2);
}

// [RSD] Algorithm 9, line 7: two sequences of two tokens from a beam of two. With scores truncated by the parent's they
// are drawn without replacement; with the untruncated ones they are not.
TEST(Errata, StochasticBeamsNeedTruncatedScores) {
    row const first{0.6, 0.3, 0.1};
    std::array<row, 3> const then{row{0.8, 0.1, 0.1}, row{0.2, 0.5, 0.3}, row{0.1, 0.1, 0.8}};
    std::map<std::pair<std::size_t, std::size_t>, double> law;  // of the unordered pair, numbers of sequences
    auto const joint = [&](std::size_t s) { return first[s / 3] * then[s / 3][s % 3]; };
    for (std::size_t a = 0; a < 9; ++a)
        for (std::size_t b = 0; b < 9; ++b)
            if (a != b) law[std::minmax(a, b)] += joint(a) * joint(b) / (1 - joint(a));
    std::mt19937_64 numbers(5);
    std::extreme_value_distribution<double> gumbel;
    using scored = std::pair<double, std::size_t>;
    auto const distance = [&](bool truncated) {
        constexpr int runs = 40000;
        std::map<std::pair<std::size_t, std::size_t>, double> found;
        for (int run = 0; run < runs; ++run) {
            std::vector<scored> level;
            for (std::size_t a = 0; a < 3; ++a) level.emplace_back(std::log(first[a]) + gumbel(numbers), a);
            std::sort(level.rbegin(), level.rend());
            std::vector<scored> next;
            for (auto const& [score, a] : {level[0], level[1]}) {
                std::array<double, 3> own{};
                for (std::size_t b = 0; b < 3; ++b) own[b] = std::log(joint(3 * a + b)) + gumbel(numbers);
                double const largest = *std::max_element(own.begin(), own.end());
                for (std::size_t b = 0; b < 3; ++b)
                    // (11): -log(exp(-parent) - exp(-largest) + exp(-own))
                    next.emplace_back(
                        truncated ? -std::log(std::exp(-score) - std::exp(-largest) + std::exp(-own[b])) : own[b],
                        3 * a + b);
            }
            std::sort(next.rbegin(), next.rend());
            found[std::minmax(next[0].second, next[1].second)] += 1.0 / runs;
        }
        double sum = 0;
        for (auto const& [pair, mass] : law) sum += std::abs(mass - found[pair]) / 2;
        return sum;
    };
    EXPECT_LT(distance(true), 0.015);
    EXPECT_GT(distance(false), 0.05);
}

// [RSD] 5: a draft of a hundredth of the target's size costs a hundredth of its call, not a hundred of them.
TEST(Errata, TheSizeRatioIsDraftOverTarget) {
    EXPECT_NEAR(analysis::memory_bound_speed_up(3, 5, 0.01), 3 / 1.05, 1e-12);
    EXPECT_LT(analysis::memory_bound_speed_up(3, 5, 100), 0.01) << "as it is printed, every draft would make it slower";
}

}  // namespace
}  // namespace errata_test
