// Bootstrap intervals: known cases, coverage, determinism, errors.
#include "multidraft/analysis/bootstrap.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "multidraft/base/error.hpp"
#include "support/refusal.hpp"

namespace bootstrap_test {
namespace {

namespace analysis = multidraft::analysis;
using multidraft::invalid_input;

TEST(bootstrap, normal_quantiles) {
    EXPECT_NEAR(analysis::detail::normal_quantile(0.975), 1.959963984540054, 1e-9);
    EXPECT_NEAR(analysis::detail::normal_quantile(0.5), 0, 1e-12);
    EXPECT_NEAR(analysis::detail::normal_quantile(0.025), -1.959963984540054, 1e-9);
}

TEST(bootstrap, of_values_without_spread_is_a_point) {
    std::vector<double> const same(9, 2.5);
    auto const found = analysis::bootstrap_mean(same);
    EXPECT_EQ(found.value, 2.5);
    EXPECT_EQ(found.low, 2.5);
    EXPECT_EQ(found.high, 2.5);
    std::vector<double> const one{7};
    auto const alone = analysis::bootstrap_mean(one);
    EXPECT_EQ(alone.low, 7);
    EXPECT_EQ(alone.samples, 1U);
}

TEST(bootstrap, percentiles_of_two_values_are_those_of_the_binomial) {
    // The mean of 0 and 1 resampled is 0, 1/2, 1 with probability 1/4, 1/2, 1/4.
    std::vector<double> const two{0, 1};
    analysis::bootstrap_options options;
    options.kind = analysis::bootstrap_kind::percentile;
    options.confidence = 0.4;  // the ends at 30 % and 70 %
    auto const middle = analysis::bootstrap_mean(two, options);
    EXPECT_EQ(middle.low, 0.5);
    EXPECT_EQ(middle.high, 0.5);
    options.confidence = 0.6;  // at 20 % and 80 %
    auto const wide = analysis::bootstrap_mean(two, options);
    EXPECT_EQ(wide.low, 0);
    EXPECT_EQ(wide.high, 1);
}

TEST(bootstrap, equals_the_normal_interval_for_many_values) {
    std::mt19937_64 dice(1);
    std::normal_distribution<double> normal(3, 2);
    std::vector<double> values(400);
    double mean = 0;
    for (double& x : values) mean += x = normal(dice);
    mean /= 400;
    double squares = 0;
    for (double const x : values) squares += (x - mean) * (x - mean);
    double const error = std::sqrt(squares / 399 / 400);
    for (auto const kind : {analysis::bootstrap_kind::percentile, analysis::bootstrap_kind::bca}) {
        analysis::bootstrap_options options;
        options.rounds = 20000;
        options.kind = kind;
        auto const found = analysis::bootstrap_mean(values, options);
        EXPECT_NEAR(found.value, mean, 1e-12);
        EXPECT_NEAR(found.low, mean - 1.96 * error, 0.1 * error);
        EXPECT_NEAR(found.high, mean + 1.96 * error, 0.1 * error);
    }
}

TEST(bootstrap, bca_leans_towards_the_long_tail) {
    std::vector<double> const skewed{0.1, 0.2, 0.2, 0.3, 0.3, 0.4, 0.5, 0.6, 0.9, 5.0};
    analysis::bootstrap_options plain;
    plain.kind = analysis::bootstrap_kind::percentile;
    auto const percentile = analysis::bootstrap_mean(skewed, plain);
    auto const bca = analysis::bootstrap_mean(skewed);
    EXPECT_GT(bca.low, percentile.low);
    EXPECT_GT(bca.high, percentile.high);
}

TEST(bootstrap, covers_the_truth_as_often_as_it_says) {
    // 90 % intervals of the mean of 30 exponentials, 300 times: about 270 hold it; four standard deviations are 21, and
    // such small skewed samples fall short by a few per cent.
    std::mt19937_64 dice(7);
    std::exponential_distribution<double> exponential(1);
    int held = 0;
    for (int run = 0; run < 300; ++run) {
        std::vector<double> values(30);
        for (double& x : values) x = exponential(dice);
        analysis::bootstrap_options options;
        options.confidence = 0.9;
        options.rounds = 500;
        options.seed = static_cast<std::uint64_t>(run);
        auto const found = analysis::bootstrap_mean(values, options);
        if (found.low <= 1 && 1 <= found.high) ++held;
    }
    EXPECT_GE(held, 240);
    EXPECT_LE(held, 291);
}

TEST(bootstrap, equal_seeds_give_equal_intervals) {
    std::vector<double> const above{3, 5, 2, 8, 4};
    std::vector<double> const below{2, 3, 1, 5, 4};
    auto const first = analysis::bootstrap_ratio(above, below);
    auto const again = analysis::bootstrap_ratio(above, below);
    EXPECT_DOUBLE_EQ(first.value, 22.0 / 15.0);
    EXPECT_EQ(first.low, again.low);
    EXPECT_EQ(first.high, again.high);
    EXPECT_LT(first.low, first.value);
    EXPECT_GT(first.high, first.value);
}

TEST(bootstrap, of_groups_of_one_is_that_of_their_values) {
    std::vector<double> const values{0.1, 0.7, 0.3, 0.9, 0.2};
    std::vector<std::int64_t> const groups{7, -3, 0, 12, 5};
    auto const alone = analysis::bootstrap_mean(values);
    auto const clustered = analysis::bootstrap_clustered_mean(values, groups);
    EXPECT_EQ(clustered.value, alone.value);
    EXPECT_EQ(clustered.low, alone.low);
    EXPECT_EQ(clustered.high, alone.high);
    EXPECT_EQ(clustered.samples, 5U);
}

TEST(bootstrap, of_groups_sees_that_values_repeat) {
    // Every value eight times: eight times the values, and no more is known of their mean. Sums of them are exact.
    std::vector<double> const once{0.25, 0.5, 0.375, 0.875, 0.75, 0.3125, 0.625, 0.125};
    std::vector<double> often;
    std::vector<std::int64_t> groups;
    for (int copy = 0; copy < 8; ++copy)  // the rows of a group need not be neighbours
        for (std::size_t k = 0; k < once.size(); ++k) {
            often.push_back(once[k]);
            groups.push_back(static_cast<std::int64_t>(k) * 1000 - 3);
        }
    auto const truth = analysis::bootstrap_mean(once);
    auto const clustered = analysis::bootstrap_clustered_mean(often, groups);
    EXPECT_NEAR(clustered.value, truth.value, 1e-12);
    EXPECT_NEAR(clustered.low, truth.low, 1e-12);
    EXPECT_NEAR(clustered.high, truth.high, 1e-12);
    auto const taken_as_independent = analysis::bootstrap_mean(often);
    EXPECT_LT(2 * (taken_as_independent.high - taken_as_independent.low), clustered.high - clustered.low);
}

TEST(bootstrap, of_groups_of_different_sizes_is_of_the_mean_of_all_values) {
    // Not 1, 1, 1, 0: beside the groups g++ 12 stores that as 1, 1, 1, 1 where it has AVX-512.
    std::vector<double> const values{0.5, 1, 1.5, 0};
    std::vector<std::int64_t> const groups{4, 4, 4, 9};
    auto const found = analysis::bootstrap_clustered_mean(values, groups);
    EXPECT_EQ(found.value, 0.75);
    EXPECT_EQ(found.samples, 2U);
    auto const sums = analysis::sums_of_clusters(values, groups);
    EXPECT_EQ(sums.sums, (std::vector<double>{3, 0}));
    EXPECT_EQ(sums.counts, (std::vector<double>{3, 1}));
    std::vector<std::int64_t> const one(4, 2);
    auto const point = analysis::bootstrap_clustered_mean(values, one);
    EXPECT_EQ(point.low, point.high);
    EXPECT_THROW(static_cast<void>(analysis::bootstrap_clustered_mean(values, std::vector<std::int64_t>{1, 2})),
                 invalid_input);
    EXPECT_THROW(static_cast<void>(analysis::bootstrap_clustered_mean({}, {})), invalid_input);
}

TEST(bootstrap, refuses_what_has_no_interval) {
    std::vector<double> const none;
    std::vector<double> const two{1, 2};
    std::vector<double> const endless{1, std::nan("")};
    EXPECT_THROW(static_cast<void>(analysis::bootstrap_mean(none)), invalid_input);
    EXPECT_THROW(static_cast<void>(analysis::bootstrap_mean(endless)), invalid_input);
    EXPECT_THROW(static_cast<void>(analysis::bootstrap_ratio(two, none)), invalid_input);
    constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    for (double const bad : {-1.0, nan, std::numeric_limits<double>::infinity()}) {
        std::vector<double> const below{1, bad};
        EXPECT_EQ(multidraft::testing::refusal([&] {
                      static_cast<void>(analysis::bootstrap_ratio(two, below));
                  }).find("below[1] = "),
                  0U);
    }
    analysis::bootstrap_options options;
    options.confidence = 1;
    EXPECT_THROW(static_cast<void>(analysis::bootstrap_mean(two, options)), invalid_input);
    options.confidence = 0.9;
    options.rounds = 1;
    EXPECT_THROW(static_cast<void>(analysis::bootstrap_mean(two, options)), invalid_input);
}

}  // namespace
}  // namespace bootstrap_test
