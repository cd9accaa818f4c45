// The root of a decreasing function: exact ends, kinks, steps, NaN, and how few evaluations it takes.
#include "multidraft/verify/detail/decreasing_root.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace decreasing_root_test {
namespace {

using multidraft::verify::detail::decreasing_root;

TEST(DecreasingRoot, CurvesOfRanksTakeFewEvaluations) {
    int calls = 0;
    int cases = 0;
    for (int draws = 2; draws <= 8; ++draws) {
        auto const below = [=](double t) { return 1 - std::pow(1 - t, draws); };
        for (double width = 0.001; width < 0.9; width *= 1.7) {
            double const most = below(width);
            double const least = 1 - below(1 - width);
            for (int share = 1; share < 10; ++share) {
                double const wanted = least + (most - least) * share / 10;
                auto const f = [&](double t) {
                    ++calls;
                    return below(std::min(t + width, 1.0)) - below(t) - wanted;
                };
                EXPECT_NEAR(f(decreasing_root(f, 0.0, 1 - width, 1e-15)), 0, 2e-15);
                ++cases;
            }
        }
    }
    EXPECT_LT(calls, 12 * cases);
}

TEST(DecreasingRoot, KinksAndSteps) {
    for (double kink = 0.01; kink < 1; kink += 0.013) {
        auto const f = [&](double t) { return t < kink ? 1e-3 * (kink - t) : -5 * (t - kink); };
        EXPECT_NEAR(decreasing_root(f, 0.0, 1.0, 0.0), kink, 1e-12);
    }
    int calls = 0;
    auto const step = [&](double t) {
        ++calls;
        return t < 0.3 ? 1.0 : -1.0;
    };
    EXPECT_NEAR(decreasing_root(step, 0.0, 1.0, 0.0), 0.3, 1e-15);
    EXPECT_LE(calls, 100);
}

TEST(DecreasingRoot, OneSignGivesTheNearerEnd) {
    EXPECT_EQ(decreasing_root([](double t) { return 2 - t; }, 0.0, 1.0, 0.0), 1.0);
    EXPECT_EQ(decreasing_root([](double t) { return -t - 1; }, 0.25, 1.0, 0.0), 0.25);
    EXPECT_EQ(decreasing_root([](double) { return 0.0; }, 0.25, 1.0, 0.0), 0.25);
}

TEST(DecreasingRoot, NaNEndsInsideTheBracket) {
    double const nan = std::numeric_limits<double>::quiet_NaN();
    int calls = 0;
    auto const f = [&](double t) {
        ++calls;
        return t < 0.3 ? 1.0 : (t < 0.6 ? nan : -1.0);
    };
    double const root = decreasing_root(f, 0.0, 1.0, 0.0);
    EXPECT_GE(root, 0.0);
    EXPECT_LE(root, 1.0);
    EXPECT_LE(calls, 100);
    EXPECT_EQ(decreasing_root([=](double) { return nan; }, 0.5, 1.0, 0.0), 0.5);
}

}  // namespace
}  // namespace decreasing_root_test
