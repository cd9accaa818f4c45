// The data passed to an observer, and the counts by rank, agree with the text and with each other.
#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <vector>

#include "multidraft/decode/independent_drafter.hpp"
#include "multidraft/decode/lookup_drafter.hpp"
#include "multidraft/decode/speculative.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/tree/shapes.hpp"
#include "multidraft/verify/multi_round.hpp"
#include "multidraft/verify/naive.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "support/table_model.hpp"

namespace multidraft {
namespace observer_test {
namespace {

using testing::random_conditional;
using testing::table_model;

TEST(observer, sees_the_row_that_each_child_was_drawn_from) {
    constexpr std::int32_t vocabulary = 50;
    auto const first = random_conditional(vocabulary, 1, 1, 0, 2.0);
    auto const second = random_conditional(vocabulary, 2, 1, 0, 2.0);
    table_model<float> target{vocabulary, random_conditional(vocabulary, 3, 2, 0, 2.0)};
    table_model<float> one{vocabulary, first};
    table_model<float> other{vocabulary, second};
    generation_options options;
    options.max_tokens = 30;
    int steps = 0;
    options.observer = [&](step_view const& step) {
        if (step.tree.size() < 3) return;
        ++steps;
        for (node_id v = 1; v <= 2; ++v) {
            auto const row = (v == 1 ? first : second)(step.text.last(1));
            auto const x = static_cast<std::size_t>(step.tree.tokens[v]);
            EXPECT_NEAR(step.q[static_cast<std::size_t>(v)], row[x], 1e-5);
        }
    };
    using several = independent_drafter<table_model<float>>;
    static_cast<void>(make_speculative<verify::multi_round<law::independent>>(
        target, several({&one, &other}, branching({2})))(std::vector<token_id>{3, 1}, options));
    EXPECT_GT(steps, 5);
}

TEST(observer, sees_every_step_and_changes_nothing) {
    constexpr std::int32_t vocabulary = 50;
    table_model<float> target{vocabulary, random_conditional(vocabulary, 1, 2, 0, 2.0)};
    table_model<float> draft{vocabulary, random_conditional(vocabulary, 1, 1, 0, 2.0)};
    std::vector<token_id> const prompt{3, 1, 4};
    generation_options options;
    options.max_tokens = 60;
    auto loop = make_speculative<draft::sequential, verify::recursive_rejection<law::sequential>>(target, draft,
                                                                                                  branching({3, 2}));
    auto const plain = loop(prompt, options);
    std::vector<token_id> seen;
    std::int64_t steps = 0;
    options.observer = [&](step_view const& step) {
        ++steps;
        EXPECT_EQ(step.text.size(), prompt.size() + seen.size());
        EXPECT_EQ(step.tree.tokens[0], step.text.back());
        ASSERT_EQ(step.p.size(), static_cast<std::size_t>(step.tree.size()));
        ASSERT_EQ(step.q.size(), step.p.size());
        for (std::size_t v = 1; v < step.p.size(); ++v) {
            EXPECT_GE(step.p[v], 0);
            EXPECT_LE(step.p[v], 1);
            EXPECT_GT(step.q[v], 0);  // it was drawn
        }
        for (node_id const v : step.path) seen.push_back(step.tree.tokens[static_cast<std::size_t>(v)]);
        seen.push_back(step.next);
    };
    auto const observed = loop(prompt, options);
    EXPECT_EQ(observed.tokens, plain.tokens);
    seen.resize(observed.tokens.size());
    EXPECT_EQ(seen, observed.tokens);
    generation_metrics const& m = observed.metrics;
    EXPECT_EQ(steps, m.target_calls);
    EXPECT_EQ(std::accumulate(m.by_rank.accepted.begin(), m.by_rank.accepted.end(), std::int64_t{0}),
              m.whole_steps.accepted);
    ASSERT_EQ(m.by_rank.tried.size(), 3U);
    EXPECT_EQ(m.by_rank.tried[0], std::accumulate(m.by_depth.tried.begin(), m.by_depth.tried.end(), std::int64_t{0}));
    EXPECT_EQ(m.by_rank.tried[2], m.by_depth.tried[0]);  // only the root has three children
    generation_metrics twice = m;
    twice += m;
    EXPECT_EQ(twice.by_rank.accepted[0], 2 * m.by_rank.accepted[0]);
    EXPECT_DOUBLE_EQ(twice.acceptance_rate_of_rank(1), m.acceptance_rate_of_rank(1));
    EXPECT_EQ(m.acceptance_rate_of_rank(7), 0);
}

TEST(observer, of_a_drafter_without_rows) {
    constexpr std::int32_t vocabulary = 4;
    table_model<float> target{vocabulary, random_conditional(vocabulary, 1, 1, 0, 2.0)};
    std::vector<token_id> const prompt{3, 1, 3, 1, 3};
    generation_options options;
    options.max_tokens = 20;
    std::int64_t steps = 0;
    options.observer = [&](step_view const& step) {
        ++steps;
        EXPECT_TRUE(step.q.empty());
        EXPECT_EQ(step.p.size(), static_cast<std::size_t>(step.tree.size()));
    };
    auto const g = make_speculative<verify::naive<law::deterministic>>(target, lookup_drafter{})(prompt, options);
    EXPECT_EQ(steps, g.metrics.target_calls);
}

}  // namespace
}  // namespace observer_test
}  // namespace multidraft
