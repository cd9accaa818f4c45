// Trees of a block drafter whose number of nodes is chosen at every step: choices for synthetic costs, what is learnt,
// and that the text keeps the target's law.
#include "multidraft/control/budget_controller.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "control/fresh_controller.hpp"
#include "control/known_world.hpp"
#include "decode/text_laws.hpp"
#include "multidraft/analysis/configuration_search.hpp"
#include "multidraft/control/budgeted_block_drafter.hpp"
#include "multidraft/decode/autoregressive.hpp"
#include "multidraft/decode/speculative.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/tree/shapes.hpp"
#include "multidraft/verify/nested_ranked_block.hpp"
#include "multidraft/verify/ranked_block.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/traversal.hpp"
#include "support/refusal.hpp"
#include "support/table_block.hpp"
#include "support/table_model.hpp"

namespace multidraft {
namespace budget_controller_test {
namespace {

using testing::conditional_block;
using testing::costs;
using testing::distance;
using testing::fresh;
using testing::law_of_loop;
using testing::random_conditional;
using testing::table_block;
using testing::table_model;
using testing::true_law;

constexpr std::int32_t vocabulary = 3;
std::vector<token_id> const prompt{1, 2, 1};

/// Chooses by all that it may depend on: the rows' promises, and every tree, path and token of earlier steps.
struct curious {
    void start() { seen = 7; }
    [[nodiscard]] std::int32_t levels(step_situation const& s) {
        mix(static_cast<std::int64_t>(s.text.size()));
        return (seen >> 30U) % 5 == 0 ? 0 : s.depth - static_cast<std::int32_t>((seen >> 25U) % 3 == 0 && s.depth > 1);
    }
    [[nodiscard]] std::span<node_id const> budgets() const { return all; }
    [[nodiscard]] double correction(std::int32_t level, std::int32_t n) const {
        return (seen >> 20U) % 2 == 0 ? 1.0 : 0.5 + level + 0.1 * n;
    }
    [[nodiscard]] std::size_t choose(std::span<tree_offer const> offers) {
        for (tree_offer const& one : offers) mix(static_cast<std::int64_t>(1e6 * one.tokens));
        std::size_t const k = (seen >> 33U) % offers.size();
        ++chosen[offers[k].nodes];
        return k;
    }
    [[nodiscard]] double least() const { return (seen >> 40U) % 2 == 0 ? 0.05 : 0.3; }
    void expect(topology const&, std::span<double const>) {}
    void learn(step_outcome const& outcome) {
        for (auto const x : outcome.tree.tokens) mix(x);
        for (auto const x : outcome.path) mix(x);
    }

    std::map<node_id, int> chosen;

private:
    void mix(std::int64_t x) {
        seen = (seen ^ static_cast<std::uint64_t>(x + 2)) * UINT64_C(0x9e3779b97f4a7c15);
        seen ^= seen >> 29U;
    }
    std::vector<node_id> all{1, 2, 4};
    std::uint64_t seen = 7;
};

template <class Sampler, class Verifier, class Shape, class Model, class Chooser>
void expect_exact(Model& model, Chooser& choices, Shape shape, std::vector<sampling_params> const& samplings) {
    auto const p = random_conditional(vocabulary, 11);
    table_model<double> target(vocabulary, p);
    for (sampling_params const& w : samplings) {
        generation_options options;
        options.max_tokens = 3;
        options.sampling = w;
        using drafter = budgeted_block_drafter<Model, Sampler, Shape, Chooser>;
        auto loop = make_speculative<Verifier>(target, drafter(model, choices, shape));
        auto const found = law_of_loop(loop, prompt, options, [](generation const&) {});
        EXPECT_NEAR(found.total, 1.0, 1e-12);
        EXPECT_LT(distance(found.law, true_law(p, vocabulary, prompt, 3, w)), 1e-12);
    }
}

// (nested_ranked_block asks for uniforms, which are not enumerated: tests/proof/nested_ranked_block_test.cpp.)
TEST(budgeted_block_drafter, is_exact_with_budgets_by_rows_and_by_all_of_earlier_steps) {
    curious choices;
    conditional_block block(vocabulary, 12, 2);
    using best = budgeted_shape<curious>;
    using reach = budgeted_reach_shape<curious>;
    std::vector<sampling_params> const samplings{{}, {.temperature = 0.1F}, {.temperature = 0.0F}};
    expect_exact<draft::stratified, verify::ranked_block<law::stratified>>(block, choices, best(choices, 2), samplings);
    expect_exact<draft::sequential, verify::traversal<law::sequential>>(block, choices, best(choices, 2), samplings);
    expect_exact<draft::stratified, verify::ranked_block<law::stratified>>(block, choices, reach(choices, 2, 2),
                                                                           samplings);
    EXPECT_GE(choices.chosen.size(), 3U) << "the choices differ";
}

TEST(budgeted_block_drafter, is_exact_with_the_librarys_controller) {
    std::map<node_id, int> chosen;
    for (step_times const& times : costs()) {
        fresh choices(times, {.nodes = 3, .memory = 2, .credit = 1e9, .learns_times = false});
        table_block block(vocabulary, 12, 2);
        conditional_block conditional(vocabulary, 12, 2);
        expect_exact<draft::sequential, verify::recursive_rejection<law::sequential>>(
            block, choices, budgeted_shape<fresh>(choices, 2), {{}, {.temperature = 0.1F}});
        expect_exact<draft::stratified, verify::ranked_block<law::stratified>>(
            conditional, choices, budgeted_reach_shape<fresh>(choices, 2, 2), {{}});
        chosen.insert(choices.chosen.begin(), choices.chosen.end());
    }
    EXPECT_GE(chosen.size(), 2U);
}

/// A budget_controller in a world where the rows promise `said` of each level and `real` comes about, after so many
/// trees that are refused: its mean number of nodes over the last steps, and the loss against drafting nothing. With
/// `slower` it has a clock, by which all takes that many times as long as by `times`.
struct seen_in_world {
    double nodes = 0;
    double tokens = 0;
    double seconds = 0;
    double correction = 0;
    double levels = 0;  ///< asked for, of eight
};
seen_in_world run(step_times const& times, double said, double real, int steps, int refused = 0, double slower = 0) {
    int trees = 0;
    testing::world in{times, [&](std::int32_t, std::int32_t) { return trees > refused ? real : 0.0; }};
    budget_controller choices(times, {.nodes = 8, .learns_times = slower > 0});
    choices.start();
    std::vector<token_id> const tokens(16, 0);
    seen_in_world result;
    for (int k = 0; k < steps; ++k) {
        topology shape;
        std::int32_t const levels = choices.levels({{}, 8, 1});
        bool const called = levels > 0;
        if (called) {
            std::vector<tree_offer> offers{{}};
            for (node_id const n : choices.budgets()) {
                if (n > levels) break;
                double reach = 1;
                double sum = 0;
                for (node_id d = 0; d < n; ++d) sum += reach *= std::min(1.0, said * choices.correction(d, 1));
                offers.push_back({n, n, sum, n});
            }
            shape = chain(offers[choices.choose(offers)].nodes);
            std::vector<double> const chances(static_cast<std::size_t>(shape.size()), said);
            choices.expect(shape, chances);
            ++trees;
        }
        auto const path = in.step(shape);
        step_seconds const took{times.target(shape.size()), called ? times.draft(levels) : 0,
                                times.library[0].step + (shape.size() - 1) * times.library[0].inner};
        result.seconds += testing::sum(took);
        result.tokens += static_cast<double>(path.size() + 1);
        if (2 * k >= steps) result.nodes += 2.0 * (shape.size() - 1) / steps;
        if (2 * k >= steps) result.levels += 2.0 * levels / steps;
        choices.learn({{shape.parents(), span<token_id const>(tokens).first(testing::at(shape.size()))},
                       path,
                       {slower * took.target, slower * took.draft, slower * took.library}});
    }
    result.correction = choices.correction(0, 1);
    return result;
}

TEST(budget_controller, takes_more_nodes_where_rows_promise_more_or_cost_less) {
    EXPECT_GT(run(costs()[0], 0.8, 0.8, 200).nodes, 6);
    EXPECT_GT(run(costs()[0], 0.8, 0.8, 200).nodes, run(costs()[1], 0.5, 0.5, 200).nodes);
    EXPECT_GT(run(costs()[1], 0.8, 0.8, 200).nodes, run(costs()[1], 0.3, 0.3, 200).nodes);
    EXPECT_LT(run(costs()[2], 0.5, 0.5, 400).nodes, 0.2) << "rows that cost a call each";
}

TEST(budget_controller, asks_for_the_levels_that_are_worth_their_rows) {
    step_times times = costs()[0];
    times.draft = analysis::call_cost({{1, 0.1}});
    EXPECT_NEAR(run(times, 0.4, 0.4, 200).levels, 8, 1e-9) << "its rows cost nothing";
    times.draft = analysis::call_cost({{1, 0.1}, {8, 0.45}});
    EXPECT_GT(run(times, 0.9, 0.9, 200).levels, 6);
    auto const few = run(times, 0.4, 0.4, 200);
    EXPECT_LT(few.levels, 3);
    // Most calls ask for few; with all of them each step would take a third of a call longer.
    EXPECT_GT(few.tokens, 1.4 * 200);
    EXPECT_LT(few.seconds, 1.3 * 200);
}

TEST(asked_levels, follow_what_levels_gain_and_cost) {
    analysis::call_cost const cost({{1, 0.2}, {6, 0.7}});  // a tenth of a second a level
    asked_levels asked;
    std::vector<double> const shallow{0, 0.5, 0.8, 0.81, 0.82, 0.82, 0.82};
    std::vector<double> const deep{0, 0.5, 0.8, 1.1, 1.4, 1.7, 2.0};
    auto const run_of = [&](std::vector<double> const& worth, double price, int calls) {
        int whole = 0;
        std::int32_t last = 0;
        for (int k = 0; k < calls; ++k) {
            std::int32_t const levels = asked.choose(6, cost, price);
            EXPECT_LE(levels, 6);
            EXPECT_GE(levels, 1);
            asked.learn(std::span(worth).first(static_cast<std::size_t>(levels) + 1));
            whole += levels == 6 ? 1 : 0;
            if (levels < 6) last = levels;
        }
        return std::pair(whole, last);
    };
    EXPECT_EQ(asked.choose(6, cost, 1), 6) << "nothing is known";
    EXPECT_EQ(run_of(shallow, 1, 160), std::pair(12 + 10, 2)) << "all at first, and then at every 16th call";
    EXPECT_EQ(run_of(shallow, 0.05, 16), std::pair(1, 4)) << "the last two levels gain nothing";
    EXPECT_GT(run_of(deep, 1, 1600).first, 800) << "what changes is seen by the calls for all";
    EXPECT_EQ(asked.choose(1, cost, 1), 1);
    EXPECT_EQ(asked.choose(0, cost, 1), 0);
}

TEST(budget_controller, corrects_what_the_rows_promise_by_what_came_about) {
    EXPECT_NEAR(run(costs()[0], 0.8, 0.8, 1000).correction, 1, 0.1);
    EXPECT_LT(run(costs()[0], 0.8, 0.4, 1000).correction, 0.75);
    EXPECT_GT(run(costs()[0], 0.4, 0.8, 1000).correction, 1.4);
}

TEST(budget_controller, corrects_single_children_apart_from_several) {
    budget_controller choices(costs()[0], {.learns_times = false});
    choices.start();
    std::vector<token_id> const tokens(3, 0);
    topology const pair = topology::from_parents(std::vector<node_id>{none, 0, 0});
    for (int k = 0; k < 400; ++k) {
        topology const shape = k % 2 == 0 ? chain(1) : pair;
        std::vector<node_id> path;
        // Of single children 7 in 10 are accepted, of two one in 2; 1 in 2 and 7 in 10 were expected.
        if (k % 20 < (k % 2 == 0 ? 14 : 10)) path.push_back(1);
        ASSERT_EQ(choices.levels({{}, 1, 1}), 1);
        static_cast<void>(choices.choose(std::vector<tree_offer>{{}, {1, 1, 0.6}}));
        choices.expect(shape, k % 2 == 0 ? std::vector<double>{1, 0.5} : std::vector<double>{1, 0.4, 0.3});
        choices.learn({{shape.parents(), span<token_id const>(tokens).first(testing::at(shape.size()))}, path, {}});
    }
    EXPECT_GT(choices.correction(0, 1), 1.1);
    EXPECT_LT(choices.correction(0, 2), 0.9);
}

/// Takes the last offer always, which is the longest chain.
struct takes_the_chain : curious {
    [[nodiscard]] std::int32_t levels(step_situation const& s) const { return s.depth; }
    [[nodiscard]] std::size_t choose(std::span<tree_offer const> offers) {
        for (tree_offer const& one : offers) most = std::max(most, one.nodes);
        return offers.size() - 1;
    }
    node_id most = 0;
};

template <class Shape>
void expect_chains() {
    table_model<double> target(vocabulary, random_conditional(vocabulary, 11));
    conditional_block block(vocabulary, 12, 3);
    takes_the_chain choices;
    using drafter = budgeted_block_drafter<conditional_block, draft::stratified, Shape, takes_the_chain>;
    Shape shape = [&] {
        if constexpr (Shape::depends_on == shape_depends_on::nothing)
            return Shape(choices, 3);
        else
            return Shape(choices, 3, 3);
    }();
    auto loop = make_speculative<verify::ranked_block<law::stratified>>(target, drafter(block, choices, shape));
    generation_options options;
    options.max_tokens = 30;
    int whole = 0;
    options.observer = [&](step_view const& step) {
        for (node_id v = 0; v + 1 < step.tree.size(); ++v) EXPECT_EQ(step.tree.children(v).count, 1);
        whole += step.tree.size() == 4 ? 1 : 0;
    };
    static_cast<void>(loop(prompt, options));
    EXPECT_GT(whole, 5);
    EXPECT_EQ(choices.most, 4) << "trees are offered too";
}

TEST(budgeted_block_drafter, offers_chains_as_deep_as_the_block) {
    expect_chains<budgeted_shape<takes_the_chain>>();
    expect_chains<budgeted_reach_shape<takes_the_chain>>();
}

TEST(budget_controller, loses_no_more_than_it_may_against_drafting_nothing) {
    for (step_times const& times : costs())
        for (double const real : {0.0, 0.1, 0.5}) {
            auto const found = run(times, 0.9, real, 300);
            double const nothing = times.target(1) + times.library[0].step;
            EXPECT_LE(found.seconds, (found.tokens + budget_options{}.credit) * nothing / (1 - 0.0125) + 1e-9) << real;
        }
}

TEST(budget_controller, goes_on_asking_after_steps_that_promise_little) {
    // The first step of a text promises nothing, all others much; a call of the drafter takes 0.3 of a step.
    step_times times = costs()[0];
    double const nothing = times.target(1) + times.library[0].step;
    times.draft = analysis::call_cost({{1, 0.3 * nothing}});
    budget_controller choices(times, {.nodes = 4, .learns_times = false});
    choices.start();
    std::vector<token_id> const tokens(5, 0);
    int without = 0;
    for (int step = 0; step < 64; ++step) {
        topology shape;
        if (choices.levels({{}, 4, 1}) > 0) {
            std::vector<tree_offer> const offers{
                {}, {1, 1, step == 0 ? 0.1 : 0.8, 1}, {4, 4, step == 0 ? 0.1 : 2.5, 4}};
            shape = chain(offers[choices.choose(offers)].nodes);
        }
        without += shape.size() == 1 ? 1 : 0;
        std::vector<node_id> path;
        for (node_id v = 1; v < std::min<node_id>(shape.size(), 4); ++v) path.push_back(v);
        choices.learn({{shape.parents(), span<token_id const>(tokens).first(testing::at(shape.size()))}, path, {}});
    }
    EXPECT_LE(without, 3);
}

TEST(budget_controller, drafts_again_on_a_machine_that_is_slower_than_its_times_say) {
    for (double const slower : {1.0, 1.1, 1.2, 1.4}) {
        auto const found = run(costs()[1], 0.7, 0.7, 128, 3, slower);
        EXPECT_GT(found.nodes, 2) << slower;
        EXPECT_GT(found.tokens, 190) << slower;
    }
}

TEST(budgeted_block_drafter, writes_the_greedy_text_at_temperature_0_in_fewer_calls) {
    table_model<double> target(vocabulary, random_conditional(vocabulary, 11));
    conditional_block block(vocabulary, 12, 4);
    generation_options options;
    options.max_tokens = 60;
    options.sampling.temperature = 0;
    options.draft_sampling = options.sampling;
    options.draft_sampling->temperature = 0.1F;
    auto const greedy = autoregressive(target, prompt, options).tokens;
    budget_controller choices(costs()[0], {.nodes = 16, .learns_times = false});
    using drafter = budgeted_block_drafter<conditional_block, draft::stratified>;
    auto loop = make_speculative<verify::nested_ranked_block<law::stratified>>(
        target, drafter(block, choices, budgeted_shape(choices, 3)));
    auto const found = loop(prompt, options);
    EXPECT_EQ(found.tokens, greedy);
    EXPECT_LT(found.metrics.target_calls, 45);
    EXPECT_EQ(loop(prompt, options).tokens, greedy);
}

TEST(budgeted_block_drafter, may_draft_nothing_from_the_first_step_on) {
    table_model<double> target(vocabulary, random_conditional(vocabulary, 11));
    conditional_block block(vocabulary, 12, 4);
    step_times const dear{analysis::call_cost({{1, 1.0}, {2, 9.0}}), analysis::call_cost({{1, 9.0}}), {{}}};
    budget_controller choices(dear, {.learns_times = false});
    using drafter = budgeted_block_drafter<conditional_block, draft::stratified>;
    auto loop = make_speculative<verify::nested_ranked_block<law::stratified>>(
        target, drafter(block, choices, budgeted_shape(choices, 3)));
    generation_options options;
    options.max_tokens = 20;
    auto const found = loop(prompt, options);
    EXPECT_EQ(found.tokens.size(), 20U);
    EXPECT_EQ(found.metrics.draft_calls, 0);
}

TEST(budget_controller, names_bad_input) {
    EXPECT_THROW(budget_controller(costs()[0], {.nodes = 0}), invalid_input);
    EXPECT_THROW(budget_controller(costs()[0], {.levels = 0}), invalid_input);
    EXPECT_THROW(budget_controller(costs()[0], {.memory = 0}), invalid_input);
    EXPECT_THROW(budget_controller(costs()[0], {.slack = -1}), invalid_input);
    budget_controller choices(costs()[0]);
    EXPECT_THROW(static_cast<void>(choices.choose({})), invalid_input);
    EXPECT_THROW(budgeted_shape<>(choices, 0), invalid_input);
    acceptance_history history;
    EXPECT_THROW(history.learn_expected(chain(2), {}, std::vector<double>(2)), invalid_input);
    constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    choices.start();
    for (double const bad : {nan, 5.0, -0.5}) {
        std::vector<double> const chances{1, 0.5, bad};
        EXPECT_EQ(testing::refusal([&] { choices.expect(chain(2), chances); }).find("chances[2] = "), 0U);
    }
    std::vector<double> const too_many{1, 0.7, 0.4};
    EXPECT_EQ(testing::refusal([&] { choices.expect(branching({2}), too_many); }),
              "chances[1] = 1.1: one child at most is accepted: the chances of all sum to 1");
    EXPECT_EQ(testing::refusal([&] {
                  static_cast<void>(choices.choose(std::vector<tree_offer>{{2, 2, 1.6, 2}}));
              }),
              "offers[0] = 2: the first offer is the root alone, of 0 nodes");
}

}  // namespace
}  // namespace budget_controller_test
}  // namespace multidraft
