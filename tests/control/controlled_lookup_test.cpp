// Look-up that drafts where it pays: the target's law, rates by the length of the match, choices and losses.
#include "multidraft/control/controlled_lookup_drafter.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "control/known_world.hpp"
#include "control/repeating_text.hpp"
#include "decode/text_laws.hpp"
#include "multidraft/decode/autoregressive.hpp"
#include "multidraft/decode/speculative.hpp"
#include "multidraft/verify/naive.hpp"
#include "support/table_model.hpp"

namespace multidraft {
namespace controlled_lookup_test {
namespace {

using testing::costs;
using testing::distance;
using testing::fresh_with_rates;
using testing::law_of_loop;
using testing::random_conditional;
using testing::repeating;
using testing::table_model;
using testing::true_law;

constexpr std::int32_t vocabulary = 3;
std::vector<token_id> const prompt{1, 2, 1, 0, 1, 2};

/// Times of a target alone.
step_times without_draft(step_times times) {
    times.draft = analysis::call_cost({{1, 0.0}});
    return times;
}

template <class Chooser>
auto loop_of(table_model<double>& target, Chooser& choices, match_rates& rates, lookup_options const& options = {}) {
    return make_speculative<verify::naive<law::deterministic>>(
        target, controlled_lookup_drafter<Chooser>(choices, rates, options));
}

TEST(controlled_lookup_drafter, is_exact_with_trees_chosen_by_all_of_earlier_steps) {
    auto const p = random_conditional(vocabulary, 11);
    table_model<double> target(vocabulary, p);
    std::map<node_id, int> chosen;
    for (step_times const& times : costs())
        for (std::int32_t const nodes : {1, 2, 6})
            for (sampling_params const& w : std::vector<sampling_params>{{}, {.temperature = 0.6F, .top_k = 2}}) {
                generation_options options;
                options.max_tokens = 4;
                options.sampling = w;
                match_rates rates;
                fresh_with_rates choices(without_draft(times), {.nodes = nodes, .learns_times = false}, rates);
                auto loop = loop_of(target, choices, rates, {{4, 1}, 3, 3});
                auto const found = law_of_loop(loop, prompt, options, [](generation const&) {});
                EXPECT_NEAR(found.total, 1.0, 1e-12);
                EXPECT_LT(distance(found.law, true_law(p, vocabulary, prompt, 4, w)), 1e-12);
                chosen.insert(choices.chosen.begin(), choices.chosen.end());
            }
    EXPECT_GE(chosen.size(), 4U) << "no tree, and trees of several sizes";
}

TEST(controlled_lookup_drafter, drafts_what_repeats_and_not_what_does_not) {
    generation_options options;
    options.max_tokens = 300;
    std::vector<token_id> const begin{1, 2, 3, 4, 5, 6, 7, 8};
    std::vector<double> tokens_a_call;
    for (double const rate : {0.0, 0.5, 0.95}) {
        table_model<double> target(64, repeating(rate));
        match_rates rates;
        // Rows that cost a third of a call.
        budget_controller choices(without_draft(costs()[1]), {.nodes = 8, .learns_times = false});
        auto loop = loop_of(target, choices, rates);
        step_times const& times = choices.times();
        double spent = 0;
        options.observer = [&](step_view const& step) {
            spent += times.target(step.tree.size()) + times.library[0].step;
            for (node_id v = 0; v < step.tree.size(); ++v)
                spent += step.tree.children(v).count > 0 ? times.library[0].inner : 0;
        };
        generation_metrics const m = loop(begin, options).metrics;
        tokens_a_call.push_back(static_cast<double>(m.tokens) / static_cast<double>(m.target_calls));
        double const nothing = times.target(1) + times.library[0].step;
        EXPECT_LT(spent, (300 + budget_options{}.credit) * nothing / (1 - budget_options{}.slack)) << rate;
    }
    EXPECT_LT(tokens_a_call[0], 1.1);
    EXPECT_GT(tokens_a_call[1], 1.15);
    EXPECT_GT(tokens_a_call[2], 3);
}

TEST(controlled_lookup_drafter, writes_the_greedy_text_at_temperature_0) {
    table_model<double> target(vocabulary, random_conditional(vocabulary, 11));
    generation_options options;
    options.max_tokens = 60;
    options.sampling.temperature = 0;
    auto const greedy = autoregressive(target, prompt, options).tokens;
    match_rates rates;
    budget_controller choices(without_draft(costs()[0]), {.nodes = 16, .learns_times = false});
    auto loop = loop_of(target, choices, rates);
    auto const found = loop(prompt, options);
    EXPECT_EQ(found.tokens, greedy);
    EXPECT_LT(found.metrics.target_calls, 45);
    EXPECT_EQ(loop(prompt, options).tokens, greedy);
}

TEST(match_rates, come_to_what_they_are_shown_by_length) {
    match_rates rates(50);
    for (std::int32_t n = 1; n < match_rates::longest; ++n)
        EXPECT_LT(rates.rate(n), rates.rate(n + 1)) << "before anything is counted";
    for (int k = 0; k < 400; ++k) {
        rates.learn(2, k % 4 == 0);
        rates.learn(9, k % 4 != 0);
    }
    EXPECT_NEAR(rates.rate(2), 0.25, 0.04);
    EXPECT_NEAR(rates.rate(match_rates::longest), 0.75, 0.04) << "longer matches count as this long";
    EXPECT_EQ(rates.rate(9), rates.rate(match_rates::longest));
    EXPECT_EQ(rates.rate(1), match_rates().rate(1));
}

TEST(controlled_lookup_drafter, names_bad_input) {
    auto const message = [](auto const& call) -> std::string {
        try {
            call();
        } catch (invalid_input const& e) {
            return e.what();
        }
        return "nothing was thrown";
    };
    match_rates rates;
    budget_controller choices(costs()[0]);
    EXPECT_NE(message([&] {
                  controlled_lookup_drafter(choices, rates, {{4, 1}, 0, 3});
              }).find("paths = 0"),
              std::string::npos);
    EXPECT_NE(message([&] {
                  controlled_lookup_drafter(choices, rates, {{4, 1}, 2, 0});
              }).find("length = 0"),
              std::string::npos);
    EXPECT_NE(message([] { match_rates(0.5); }).find("memory = 0.5"), std::string::npos);
}

}  // namespace
}  // namespace controlled_lookup_test
}  // namespace multidraft
