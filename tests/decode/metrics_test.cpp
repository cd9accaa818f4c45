// Rates per step: exact means over all draws, of texts of few steps that end by limits, stop tokens and the context.
#include "multidraft/decode/metrics.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "multidraft/analysis/acceptance.hpp"
#include "multidraft/analysis/block_efficiency.hpp"
#include "multidraft/decode/autoregressive.hpp"
#include "multidraft/decode/speculative.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/lossy/joint_decoding.hpp"
#include "multidraft/lossy/target_initialised.hpp"
#include "multidraft/testing/enumerating.hpp"
#include "multidraft/tree/shapes.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/speculative_sampling.hpp"
#include "support/table_model.hpp"

namespace multidraft {
namespace metrics_test {
namespace {

using testing::table_model;

// Every row of a model is the same, so that every whole step has the same law.
std::vector<double> const p{0.7, 0.3};
std::vector<double> const q{0.4, 0.6};

testing::conditional always(std::vector<double> const& row) {
    return [row](std::span<token_id const>) { return row; };
}

auto chain_loop(table_model<double>& target, table_model<double>& draft, std::int32_t depth) {
    return make_speculative<draft::iid, verify::speculative_sampling<law::iid>>(target, draft, chain(depth));
}

/// Means over all draws of a loop's counts.
struct means {
    double tokens = 0, calls = 0, whole_tokens = 0, whole_calls = 0, whole_accepted = 0;
    std::vector<double> tried, accepted;

    [[nodiscard]] double block_efficiency() const { return whole_tokens / whole_calls; }
};

template <class Loop>
means means_of(Loop loop, generation_options const& options) {
    means found;
    testing::enumerate([&](testing::enumerating_source& source) {
        generation_metrics const m = loop(std::vector<token_id>{0}, options, source).metrics;
        double const weight = source.probability();
        found.tokens += weight * static_cast<double>(m.tokens);
        found.calls += weight * static_cast<double>(m.target_calls);
        found.whole_tokens += weight * static_cast<double>(m.whole_steps.tokens);
        found.whole_calls += weight * static_cast<double>(m.whole_steps.target_calls);
        found.whole_accepted += weight * static_cast<double>(m.whole_steps.accepted);
        found.tried.resize(std::max(found.tried.size(), m.by_depth.tried.size()));
        found.accepted.resize(found.tried.size());
        for (std::size_t d = 0; d < m.by_depth.tried.size(); ++d) {
            found.tried[d] += weight * static_cast<double>(m.by_depth.tried[d]);
            found.accepted[d] += weight * static_cast<double>(m.by_depth.accepted[d]);
        }
    });
    return found;
}

/// Whether all rates are those of a step without an end, of trees with these rates by depth.
void expect_rates(means const& found, std::vector<double> const& rates) {
    double const tau = analysis::block_efficiency(rates);
    EXPECT_NEAR(found.block_efficiency(), tau, 1e-12);
    EXPECT_NEAR(found.whole_accepted / found.whole_calls, tau - 1, 1e-12);
    ASSERT_EQ(found.tried.size(), rates.size());
    double tried = 0;
    double accepted = 0;
    double reached = 1;
    double all = 0;
    for (std::size_t d = 0; d < rates.size(); ++d) {
        EXPECT_NEAR(found.accepted[d] / found.tried[d], rates[d], 1e-12) << "depth " << d;
        tried += found.tried[d];
        accepted += found.accepted[d];
        all += reached;
        reached *= rates[d];
    }
    EXPECT_NEAR(accepted / tried, (tau - 1) / all, 1e-12) << "the mean over all depths has their weights";
    EXPECT_LT(found.tokens / found.calls, 0.98 * tau) << "the text's end matters here";
}

TEST(Metrics, RatesOfShortTextsAreThoseOfWholeSteps) {
    table_model<double> target(2, always(p));
    table_model<double> draft(2, always(q));
    double const one = 0.7;  // sum min(p, q)
    double const two = analysis::acceptance_recursive_sequential(p, q, 2);
    for (std::int32_t const tokens : {3, 4, 5}) {
        generation_options options;
        options.max_tokens = tokens;
        expect_rates(means_of(chain_loop(target, draft, 2), options), {one, one});
        expect_rates(means_of(make_speculative<draft::sequential, verify::recursive_rejection<law::sequential>>(
                                  target, draft, branching({2, 1})),
                              options),
                     {two, one});
    }
}

TEST(Metrics, AStepCountsWithAllThatItAcceptedWhereAStopTokenEndsTheText) {
    table_model<double> target(2, always(p));
    table_model<double> draft(2, always(q));
    generation_options options;
    options.max_tokens = 5;
    options.stop_tokens = {1};
    expect_rates(means_of(chain_loop(target, draft, 2), options), {0.7, 0.7});
}

TEST(Metrics, StepsBeforeTheEndOfTheContextAreNotWhole) {
    for (std::int32_t const limit : {4, 5}) {
        table_model<double> target(2, always(p), limit);
        table_model<double> draft(2, always(q), limit);
        generation_options options;
        options.max_tokens = 50;
        expect_rates(means_of(chain_loop(target, draft, 2), options), {0.7, 0.7});
    }
}

// The fraction of accepted nodes of a draft that is the target is 1 at every length of the text, and its block
// efficiency the tree's depth and one more.
TEST(Metrics, AreWholeAtEveryLengthOfTheText) {
    table_model<double> target(2, always(p));
    table_model<double> same(2, always(p));
    for (std::int32_t tokens = 6; tokens <= 24; ++tokens) {
        generation_options options;
        options.max_tokens = tokens;
        options.seed = static_cast<std::uint64_t>(tokens);
        auto const m = chain_loop(target, same, 5)(std::vector<token_id>{0}, options).metrics;
        EXPECT_EQ(m.accepted_fraction(5), 1.0) << tokens;
        EXPECT_EQ(m.block_efficiency(), 6.0) << tokens;
        EXPECT_EQ(m.whole_steps.target_calls, tokens / 6);
        EXPECT_EQ(m.whole_steps.draft_calls, 5 * (tokens / 6));
        EXPECT_EQ(m.whole_steps.drafted, 5 * (tokens / 6));
        EXPECT_EQ(m.tokens, tokens);
        EXPECT_EQ(m.target_calls, (tokens + 5) / 6);
        auto const started = lossy::target_initialised_decoding(target, same, 2, 5)(std::vector<token_id>{0}, options);
        EXPECT_EQ(started.metrics.accepted_fraction(5), 1.0) << tokens;
        EXPECT_EQ(started.metrics.block_efficiency(), 6.0) << tokens;
        EXPECT_EQ(started.metrics.by_start.won[0], tokens / 6);
        auto const joint = lossy::joint_decoding(target, 1, 5)(std::vector<token_id>{0}, options);
        EXPECT_EQ(joint.metrics.whole_steps.tokens, 5 * (tokens / 5));
        EXPECT_EQ(joint.metrics.block_efficiency(), 1.0);
    }
}

TEST(Metrics, ATextWithoutAWholeStepHasNoRates) {
    table_model<double> target(2, always(p));
    table_model<double> draft(2, always(q));
    generation_options options;
    options.max_tokens = 2;
    auto const m = chain_loop(target, draft, 2)(std::vector<token_id>{0}, options).metrics;
    EXPECT_EQ(m.tokens, 2);
    EXPECT_EQ(m.whole_steps.target_calls, 0);
    EXPECT_EQ(m.block_efficiency(), 0.0);
    EXPECT_EQ(m.acceptance_rate(), 0.0);
    EXPECT_EQ(m.accepted_fraction(2), 0.0);
    auto sum = m;
    options.max_tokens = 7;
    auto const plain = autoregressive(target, std::vector<token_id>{0}, options).metrics;
    EXPECT_EQ(plain.whole_steps.target_calls, 7);
    sum += plain;
    EXPECT_EQ(sum.whole_steps.tokens, 7);
    EXPECT_EQ(sum.block_efficiency(), 1.0);
}

}  // namespace
}  // namespace metrics_test
}  // namespace multidraft
