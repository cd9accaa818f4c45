// Block efficiency, improvement factor and memory-bound speed-up: their formulas, limits and errors.
#include "multidraft/analysis/block_efficiency.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "support/refusal.hpp"

namespace block_efficiency_test {
namespace {

namespace analysis = multidraft::analysis;
using multidraft::testing::refusal;

TEST(block_efficiency, sums_the_chances_to_reach_a_depth) {
    std::vector<double> const rates{0.5, 0.25, 1.0};
    EXPECT_DOUBLE_EQ(analysis::block_efficiency(rates), 1 + 0.5 + 0.125 + 0.125);
    EXPECT_DOUBLE_EQ(analysis::block_efficiency(std::vector<double>{}), 1);
    EXPECT_DOUBLE_EQ(analysis::block_efficiency(std::vector<double>{0, 1, 1}), 1);
    EXPECT_DOUBLE_EQ(analysis::block_efficiency(std::vector<double>(7, 1.0)), 8);
    std::vector<double> const bad{0.5, 1.5};
    EXPECT_EQ(refusal([&] { return analysis::block_efficiency(bad); }),
              "rates[1] = 1.5: an acceptance rate lies in [0, 1]");
}

TEST(block_efficiency, of_one_rate_is_the_geometric_sum) {
    for (double const alpha : {0.0, 0.1, 0.5, 0.9, 0.999}) {
        for (int const depth : {0, 1, 2, 5, 20}) {
            EXPECT_NEAR(analysis::block_efficiency(alpha, depth), (1 - std::pow(alpha, depth + 1)) / (1 - alpha),
                        1e-11);
            std::vector<double> const rates(static_cast<std::size_t>(depth), alpha);
            EXPECT_DOUBLE_EQ(analysis::block_efficiency(alpha, depth), analysis::block_efficiency(rates));
        }
    }
    EXPECT_DOUBLE_EQ(analysis::block_efficiency(1, 5), 6);
    double const close = std::nextafter(1.0, 0.0);
    EXPECT_NEAR(analysis::block_efficiency(close, 5), 6, 1e-12);
    EXPECT_EQ(refusal([] { return analysis::block_efficiency(-0.5, 1); }),
              "alpha = -0.5: an acceptance rate lies in [0, 1]");
    EXPECT_EQ(refusal([] { return analysis::block_efficiency(std::numeric_limits<double>::quiet_NaN(), 1); }),
              "alpha = nan: an acceptance rate lies in [0, 1]");
    EXPECT_EQ(refusal([] { return analysis::block_efficiency(0.5, -1); }),
              "depth = -1: a draft is 0 tokens deep or more");
}

TEST(improvement_factor, is_the_formula) {
    // Leviathan et al. 2023, Theorem 3.8, worked by hand: alpha 0.8, 5 tokens, drafts at 5 % of the target's cost.
    EXPECT_NEAR(analysis::improvement_factor(0.8, 5, 0.05), (1 - 0.262144) / (0.2 * 1.25), 1e-12);
    EXPECT_DOUBLE_EQ(analysis::improvement_factor(0.3, 0, 0.5), 1);  // no draft, no gain
    EXPECT_DOUBLE_EQ(analysis::improvement_factor(1, 4, 0), 5);
    EXPECT_DOUBLE_EQ(analysis::improvement_factor(0, 4, 0.25), 0.5);  // drafts nothing useful
    EXPECT_EQ(refusal([] { return analysis::improvement_factor(0.5, 1, -0.25); }),
              "cost = -0.25: a ratio of costs is finite and not negative");
}

TEST(improvement_factor, of_the_best_depth_and_of_an_oracle) {
    double largest = 0;
    for (int a = 1; a < 200; ++a) {
        double const alpha = a / 200.0;
        for (double const cost : {0.005, 0.02, 0.1, 0.5, 1.5}) {
            auto const depth = analysis::best_depth(alpha, cost);
            double best = 0;
            for (int d = 0; d <= 600; ++d) best = std::max(best, analysis::improvement_factor(alpha, d, cost));
            double const fixed = analysis::improvement_factor(alpha, depth, cost);
            EXPECT_NEAR(fixed, best, 1e-12) << alpha << ", " << cost;
            if (cost < 1) {
                double const oracle = analysis::improvement_factor_of_oracle(alpha, cost);
                EXPECT_GE(oracle, fixed - 1e-12);
                largest = std::max(largest, oracle / fixed);
            }
        }
    }
    EXPECT_GT(largest, 1.55);  // "up to around 60 %"
    EXPECT_LT(largest, 1.6);
    // By hand: drafts of the accepted length, 4 of 5 tokens and one more at a cost of a twentieth each.
    EXPECT_NEAR(analysis::improvement_factor_of_oracle(0.8, 0.05), 5 / (1 + 4 * 0.05), 1e-12);
    EXPECT_EQ(analysis::best_depth(0, 0), 0);
    EXPECT_EQ(analysis::best_depth(0.3, 0.5), 0);
    EXPECT_EQ(refusal([] { return analysis::best_depth(1 - 1e-15, 1e-12); }),
              "cost = 1e-12: the best depth is more than 2^24 for this rate");
    EXPECT_EQ(refusal([] { return analysis::best_depth(1, 0.5); }),
              "alpha = 1: where all is accepted, no depth is the best");
    EXPECT_EQ(refusal([] { return analysis::best_depth(0.5, 0); }),
              "cost = 0: where a draft costs nothing, no depth is the best");
    EXPECT_EQ(refusal([] { return analysis::improvement_factor_of_oracle(1, 0); }),
              "cost = 0: where all is accepted and a draft costs nothing, there is no end");
}

TEST(memory_bound_speed_up, is_the_formula) {
    EXPECT_DOUBLE_EQ(analysis::memory_bound_speed_up(3, 4, 0.125), 2);
    EXPECT_DOUBLE_EQ(analysis::memory_bound_speed_up(1, 0, 0.5), 1);
    EXPECT_EQ(refusal([] { return analysis::memory_bound_speed_up(3.5, 2, 0.5); }),
              "efficiency = 3.5: a call of the target emits at most depth + 1 tokens");
    EXPECT_EQ(refusal([] { return analysis::memory_bound_speed_up(1, 2, HUGE_VAL); }),
              "size_ratio = inf: a ratio of costs is finite and not negative");
    EXPECT_EQ(refusal([] { return analysis::memory_bound_speed_up(1, -2, 0.5); }),
              "depth = -2: a draft is 0 tokens deep or more");
}

TEST(accepted_fraction, is_a_share_of_the_depth) {
    EXPECT_DOUBLE_EQ(analysis::accepted_fraction(1.5, 6), 0.25);
    EXPECT_EQ(refusal([] { return analysis::accepted_fraction(3, 2); }),
              "accepted = 3: at most depth tokens are accepted");
    EXPECT_EQ(refusal([] { return analysis::accepted_fraction(0, 0); }), "depth = 0: a draft is 1 token deep or more");
}

}  // namespace
}  // namespace block_efficiency_test
