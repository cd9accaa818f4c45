// The choice of trees at run time: learning, choices and losses for synthetic costs and rates, and that the text keeps
// the target's law whatever of the past a choice depends on.
#include "multidraft/control/controller.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "control/known_world.hpp"
#include "decode/text_laws.hpp"
#include "multidraft/control/acceptance_history.hpp"
#include "multidraft/control/controlled_drafter.hpp"
#include "multidraft/decode/autoregressive.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/testing/test_numbers.hpp"
#include "multidraft/tree/shape_text.hpp"
#include "multidraft/tree/shapes.hpp"
#include "multidraft/verify/block.hpp"
#include "multidraft/verify/k_seq.hpp"
#include "multidraft/verify/nested_ranked_block.hpp"
#include "multidraft/verify/one_of.hpp"
#include "multidraft/verify/ranked_block.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/speculative_sampling.hpp"
#include "multidraft/verify/traversal.hpp"
#include "support/refusal.hpp"
#include "support/table_block.hpp"
#include "support/table_model.hpp"

namespace multidraft {
namespace controller_test {
namespace {

using testing::at;
using testing::costs;
using testing::distance;
using testing::law_of_loop;
using testing::random_conditional;
using testing::rates_of;
using testing::refusal;
using testing::sum;
using testing::table_model;
using testing::test_numbers;
using testing::true_law;
using testing::world;

// --- Runs in a world of known costs and rates
// -------------------------------------------------------------------------

struct run_result {
    double tokens = 0;
    double seconds = 0;
    std::map<std::string, int> chosen;
};

/// Runs that many steps of a controller in a world.
run_result run(controller& choices, world& in, int steps) {
    run_result result;
    std::vector<token_id> tokens(512, 0);
    std::int32_t unread = 1;
    for (int k = 0; k < steps; ++k) {
        topology const& shape = choices.choose({{}, 100, unread});
        auto const path = in.step(shape);
        auto const spent = in.seconds(shape, unread, at(choices.verifier()));
        result.tokens += static_cast<double>(path.size() + 1);
        result.seconds += sum(spent);
        ++result.chosen[to_string(shape)];
        // Accepted nodes that were read are in the draft's cache; the last emitted token never is.
        unread = shape.size() == 1 ? unread + 1 : 1;
        choices.learn({{shape.parents(), span<token_id const>(tokens).first(at(shape.size()))}, path, spent});
    }
    return result;
}

/// The same of one shape.
double tokens_a_second(topology const& shape, world& in, int steps) {
    double tokens = 0;
    for (int k = 0; k < steps; ++k) tokens += static_cast<double>(in.step(shape).size() + 1);
    return tokens / (steps * sum(in.seconds(shape, 1, 0)));
}

// --- Learning --------------------------------------------------------------------------------------------------

TEST(acceptance_history, comes_to_the_rates_of_what_it_is_shown) {
    world in{costs()[0], [](std::int32_t level, std::int32_t n) { return n == 1 ? 0.5 : level == 0 ? 0.8 : 0.6; }};
    acceptance_history history(300);
    EXPECT_NEAR(history.rate(0, 1), 0.6, 1e-12) << "the prior";
    EXPECT_GT(history.rate(0, 4), history.rate(0, 2)) << "more children, more acceptance";
    EXPECT_LT(history.rate(0, 8), 1);
    topology const wide = branching({2, 2, 1});
    std::vector<token_id> const tokens(at(wide.size()), 0);
    for (int k = 0; k < 3000; ++k) {
        auto const path = in.step(wide);
        history.learn(wide, {{wide.parents(), tokens}, path, {}});
    }
    EXPECT_NEAR(history.rate(0, 2), 0.8, 0.06);
    EXPECT_NEAR(history.rate(1, 2), 0.6, 0.06);
    EXPECT_NEAR(history.rate(2, 1), 0.5, 0.08);
    EXPECT_NEAR(history.rate(7, 1), 0.5, 0.08) << "a level never seen is as the others";
    EXPECT_NEAR(history.share(2, 0), 0.5, 0.08) << "the last of two ranks has what the first leaves";
    EXPECT_NEAR(history.share(3, 0) + history.share(3, 1) + history.share(3, 2), 1, 1e-12);
    double whole = 0;
    for (int k = 0; k < 12; ++k) whole += history.share(12, k);
    EXPECT_NEAR(whole, 1, 1e-12) << "beyond the table";
    auto const of_children = history.child_rates(3, 4);
    for (std::int32_t level = 0; level < 3; ++level) {
        double rate = 0;  // more children are not accepted less often
        for (std::int32_t n = 1; n <= 4; ++n) {
            auto const& rates = of_children[at(level)][at(n - 1)];
            ASSERT_EQ(rates.size(), at(n));
            rate = std::max(rate, history.rate(level, n));
            EXPECT_NEAR(std::accumulate(rates.begin(), rates.end(), 0.0), rate, 1e-12);
            EXPECT_NEAR(rates[0], rate * history.share(n, 0), 1e-12);
        }
    }
    // Two children were requested and one was drawn: it counts towards the rate of two.
    acceptance_history narrow;
    std::vector<node_id> const parents{none, 0};
    std::vector<token_id> const pair{0, 0};
    std::vector<node_id> const path{1};
    for (std::size_t k = 0; k < 500; ++k)
        narrow.learn(branching({2}), {{parents, pair}, std::span<node_id const>(path).first(k % 2), {}});
    EXPECT_NEAR(narrow.rate(0, 2), 0.5, 0.05);
    EXPECT_NEAR(narrow.tried(1), 0, 1e-12);
    history.pass(1e6);
    EXPECT_NEAR(history.rate(2, 1), 0.6, 1e-6) << "everything was forgotten";
}

TEST(call_cost, moves_to_what_is_measured) {
    analysis::call_cost cost({{1, 1.0}, {4, 2.0}, {8, 4.0}});
    for (int k = 0; k < 500; ++k) {
        cost.learn(1, 2.0, 0.05);
        cost.learn(4, 2.5, 0.05);
        cost.learn(8, 5.0, 0.05);
    }
    EXPECT_NEAR(cost(1), 2, 1e-6);
    EXPECT_NEAR(cost(4), 2.5, 1e-6);
    EXPECT_NEAR(cost(6), 3.75, 1e-6);
    for (int k = 0; k < 500; ++k) cost.learn(6, 5.0, 0.05);
    EXPECT_NEAR(cost(6), 5.0, 1e-4);
    cost.learn(1, 1e9, 0.1);
    EXPECT_NEAR(cost(1), 2.2, 1e-6) << "an interrupted call counts as twice the time";
    cost.learn(1, std::nan(""), 0.1);
    cost.learn(1, -1, 0.1);
    EXPECT_NEAR(cost(1), 2.2, 1e-6);
    analysis::call_cost one({{4, 1.0}});
    one.learn(64, 1.5, 1.0);
    EXPECT_NEAR(one(1), 1.5, 1e-12);
}

// --- Choices --------------------------------------------------------------------------------------------------

TEST(controller, loses_no_more_than_it_may_against_drafting_nothing) {
    for (step_times const& times : costs())
        for (double const rate : {0.0, 0.05, 0.2, 0.4, 0.6, 0.8, 0.95}) {
            world in{times, rates_of(rate, 0.45), test_numbers(static_cast<std::uint64_t>(1000 * rate) + 3)};
            controller_options options;
            options.learns_times = false;
            controller choices(times, options);
            choices.start();
            double const nothing = times.target(1) + times.library[0].step;
            double tokens = 0;
            double seconds = 0;
            for (int part = 0; part < 20; ++part) {
                auto const result = run(choices, in, 50);
                tokens += result.tokens;
                seconds += result.seconds;
                // At any time, not only at the end. (The draft reads what it has not read yet, which is included in its
                // times.)
                EXPECT_LE(seconds, (tokens + options.credit) * nothing / (1 - options.slack) + 1e-9)
                    << rate << ", after " << 50 * (part + 1) << " steps";
            }
        }
}

TEST(controller, loses_3_percent_at_most_in_a_text_of_64_tokens) {
    for (step_times const& times : costs())
        for (double const rate : {0.0, 0.1, 0.3, 0.5, 0.7}) {
            world in{times, rates_of(rate, 0.45), test_numbers(static_cast<std::uint64_t>(1000 * rate) + 11)};
            controller choices(times, {.learns_times = false});
            double const nothing = times.target(1) + times.library[0].step;
            for (int text = 0; text < 40; ++text) {
                choices.start();
                run_result whole;
                while (whole.tokens < 64) {
                    auto const step = run(choices, in, 1);
                    whole.tokens += step.tokens;
                    whole.seconds += step.seconds;
                }
                EXPECT_LE(whole.seconds, whole.tokens * nothing / 0.97) << rate << ", text " << text;
            }
        }
}

/// The best fixed tree of a list, or none, for texts of one rate after another: tokens per second.
double best_fixed(step_times const& times, std::vector<double> const& ones) {
    double best = 1 / (times.target(1) + times.library[0].step);
    for (auto const* name : {"1", "1x1", "1x1x1", "1x1x1x1", "1x1x1x1x1", "1x1x1x1x1x1", "2", "2x1", "2x2", "2x1x1",
                             "2x2x1", "2x1x1x1", "3x1", "3x1x1", "4x1x1", "4x2x1"}) {
        double tokens = 0;
        for (double const one : ones) {
            world in{times, rates_of(one, 0.5), test_numbers(23)};
            for (int k = 0; k < 2000; ++k) tokens += static_cast<double>(in.step(parse_shape(name)).size() + 1);
        }
        world const in{times, {}};
        double const steps = 2000.0 * static_cast<double>(ones.size());
        best = std::max(best, tokens / (steps * sum(in.seconds(parse_shape(name), 1, 0))));
    }
    return best;
}

// Texts of 30 steps: what the rates are drawn towards matters more than what they come to.
TEST(controller, stops_drafting_where_a_tree_takes_longer_than_its_times_say) {
    // A target that fits in the caches: its calls take longer between those of a draft, and the first ones after them.
    step_times const times{analysis::call_cost({{1, 1.0}, {2, 1.01}, {3, 1.02}, {4, 1.03}, {6, 1.04}, {17, 1.1}}),
                           analysis::call_cost({{1, 0.02}, {17, 0.03}}),
                           {{0.001, 0.001}}};
    world in{times, rates_of(0.4, 0.45)};
    controller choices(times);
    choices.start();
    std::vector<token_id> const tokens(512, 0);
    double const nothing = times.target(1) + times.library[0].step;
    double spent = 0;
    double whole = 0;
    int trees = 0;
    double cold = 0;  // 1 after a tree, less and less without one
    for (int k = 0; k < 400; ++k) {
        topology const& shape = choices.choose({{}, 100, 1});
        auto const path = in.step(shape);
        auto seconds = in.seconds(shape, 1, 0);
        cold = shape.size() > 1 ? 1 : cold / 2;
        seconds.target *= shape.size() > 1 ? 1.9 : 1 + 0.8 * cold;
        trees += shape.size() > 1 ? 1 : 0;
        spent += sum(seconds);
        whole += static_cast<double>(path.size() + 1);
        choices.learn({{shape.parents(), span<token_id const>(tokens).first(at(shape.size()))}, path, seconds});
    }
    EXPECT_GT(trees, 0) << "by its times, trees pay";
    EXPECT_LE(spent, 1.03 * whole * nothing);
    EXPECT_NEAR(choices.times().target(1), times.target(1), 0.02) << "the calls after a tree do not count";
}

TEST(controller, does_not_hold_the_first_steps_of_a_text_against_drafts) {
    // Whatever is drafted, they take three times as long as was measured: caches and threads are cold.
    auto const times = costs()[1];
    world in{times, rates_of(0.6, 0.45)};
    controller choices(times);
    choices.start();
    std::vector<token_id> const tokens(512, 0);
    int drafted = 0;
    for (int k = 0; k < 40; ++k) {
        topology const& shape = choices.choose({{}, 100, 1});
        auto const path = in.step(shape);
        auto seconds = in.seconds(shape, 1, 0);
        if (k < 6) seconds.target *= 3;
        drafted += shape.size() > 1 ? 1 : 0;
        choices.learn({{shape.parents(), span<token_id const>(tokens).first(at(shape.size()))}, path, seconds});
    }
    EXPECT_GE(drafted, 38);
}

TEST(controller, drafts_again_on_a_machine_that_is_slower_than_its_times_say) {
    // Its first trees are refused: the text has nothing to lose, while every call takes longer than was measured.
    auto const times = costs()[1];
    for (double const slower : {1.0, 1.1, 1.2, 1.4}) {
        controller choices(times);
        choices.start();
        world refuses{times, [](std::int32_t, std::int32_t) { return 0.0; }};
        world accepts{times, rates_of(0.6, 0.45)};
        std::vector<token_id> const tokens(512, 0);
        int trees = 0;
        double whole = 0;
        for (int k = 0; k < 128; ++k) {
            topology const& shape = choices.choose({{}, 100, 1});
            auto const path = (trees < 2 ? refuses : accepts).step(shape);
            trees += shape.size() > 1 ? 1 : 0;
            auto seconds = accepts.seconds(shape, 1, 0);
            for (double* const x : {&seconds.target, &seconds.draft, &seconds.library}) *x *= slower;
            whole += static_cast<double>(path.size() + 1);
            choices.learn({{shape.parents(), span<token_id const>(tokens).first(at(shape.size()))}, path, seconds});
        }
        EXPECT_GT(trees, 80) << slower;
        EXPECT_GT(whole, 200) << slower;
    }
}

TEST(controller, forgets_at_the_same_rate_where_nothing_is_drafted) {
    auto const times = costs()[2];
    controller choices(times, {.explore_every = 0});
    std::vector<node_id> const root{none};
    std::vector<token_id> const token{0};
    step_seconds const cheap{1.0, 0, 0.01};
    // Though it chooses at every eighth step only.
    acceptance_history faded;
    faded.pass(8);
    for (int k = 0; k < 9; ++k) {
        EXPECT_EQ(choices.choose({{}, 100, 1}).size(), 1) << "rows that cost a call each";
        choices.learn({{root, token}, {}, cheap});
    }
    EXPECT_EQ(choices.rates().rate(0, 2), faded.rate(0, 2));
}

TEST(controller, is_close_to_the_best_tree_in_short_texts) {
    double sum_of_ratios = 0;
    int cases = 0;
    for (step_times const& times : costs())
        for (double const rate : {0.3, 0.5, 0.6, 0.7, 0.8}) {
            world in{times, rates_of(rate, 0.5), test_numbers(29)};
            double tokens = 0;
            double seconds = 0;
            for (int text = 0; text < 60; ++text) {
                controller choices(times, {.learns_times = false});  // knows nothing of other texts
                choices.start();
                auto const result = run(choices, in, 30);
                tokens += result.tokens;
                seconds += result.seconds;
            }
            double const ratio = tokens / seconds / best_fixed(times, {rate});
            EXPECT_GT(ratio, 0.92) << "rate " << rate;
            sum_of_ratios += ratio;
            ++cases;
        }
    std::printf("    %.3f of the best fixed tree on average\n", sum_of_ratios / cases);
    EXPECT_GT(sum_of_ratios / cases, 0.985);
}

TEST(controller, searches_trees_within_a_short_text) {
    auto const times = costs()[0];
    world in{times, rates_of(0.6, 0.45)};
    controller choices(times, {.learns_times = false});
    choices.start();
    std::size_t const settled = choices.family_size();
    run(choices, in, 30);
    EXPECT_GT(choices.family_size(), settled) << "optimal trees of the rates that are not k1 x k2 x ..";
}

TEST(controller, is_better_than_every_fixed_tree_where_short_texts_differ) {
    auto const times = costs()[1];
    controller choices(times, {.learns_times = false});
    std::vector<double> const ones{0.9, 0.15, 0.7, 0.3};
    double tokens = 0;
    double seconds = 0;
    for (std::size_t text = 0; text < 200; ++text) {
        world in{times, rates_of(ones[text % ones.size()], 0.5), test_numbers(text + 1)};
        choices.start();
        auto const result = run(choices, in, 60);
        tokens += result.tokens;
        seconds += result.seconds;
    }
    double const best = best_fixed(times, ones);
    std::printf("    %.3f tokens a second, the best fixed tree %.3f\n", tokens / seconds, best);
    EXPECT_GT(tokens / seconds, best);
}

TEST(controller, comes_close_to_the_best_tree_of_the_family) {
    int better = 0;
    for (step_times const& times : costs())
        for (double const rate : {0.2, 0.4, 0.6, 0.7, 0.8, 0.9}) {
            world in{times, rates_of(rate, 0.45), test_numbers(17)};
            controller choices(times);
            double best = 1 / (times.target(1) + times.library[0].step);
            std::string name = "0";
            for (auto const* shape :
                 {"1", "1x1", "1x1x1", "1x1x1x1", "1x1x1x1x1", "1x1x1x1x1x1", "2", "2x1", "2x2", "2x1x1", "2x2x1",
                  "2x2x2", "3x1x1", "4x1x1", "4x2x1", "2x1x1x1x1", "4", "3x1x1x1"}) {
                double const value = tokens_a_second(parse_shape(shape), in, 2000);
                if (value > best) {
                    best = value;
                    name = shape;
                }
            }
            auto const found = run(choices, in, 3000);
            double const value = found.tokens / found.seconds;
            EXPECT_GT(value, 0.95 * best) << "rate " << rate << ", best " << name;
            better += value > best ? 1 : 0;
        }
    std::printf("    better than the best fixed tree of the list in %d of 18\n", better);
}

TEST(controller, follows_a_text_that_changes) {
    auto const times = costs()[1];
    double one = 0.9;
    world in{times, [&](std::int32_t, std::int32_t n) { return 1 - std::pow(1 - one, std::pow(n, 0.45)); }};
    controller choices(times);
    double tokens = 0;
    double seconds = 0;
    for (int part = 0; part < 10; ++part) {
        one = part % 2 == 0 ? 0.9 : 0.05;
        auto const result = run(choices, in, 400);
        tokens += result.tokens;
        seconds += result.seconds;
    }
    double best = 0;
    for (auto const* shape : {"0", "1", "1x1", "1x1x1", "1x1x1x1", "1x1x1x1x1x1", "2x1x1", "3x1x1x1"}) {
        double fixed_tokens = 0;
        double fixed_seconds = 0;
        for (int part = 0; part < 10; ++part) {
            one = part % 2 == 0 ? 0.9 : 0.05;
            for (int k = 0; k < 400; ++k) fixed_tokens += static_cast<double>(in.step(parse_shape(shape)).size() + 1);
            fixed_seconds += 400 * sum(in.seconds(parse_shape(shape), 1, 0));
        }
        best = std::max(best, fixed_tokens / fixed_seconds);
    }
    std::printf("    %.3f tokens a second, the best fixed tree %.3f\n", tokens / seconds, best);
    EXPECT_GT(tokens / seconds, best);
}

TEST(controller, takes_the_verifier_that_is_worth_its_time) {
    auto times = costs()[1];
    times.library = {{0.002, 0.3}, {0.002, 0.002}};
    world in{times, rates_of(0.7, 0.45)};
    controller choices(times);
    auto const found = run(choices, in, 500);
    EXPECT_EQ(choices.verifier(), 1);
    EXPECT_GT(found.tokens, 700);
    // Wrong initial times are corrected.
    step_times wrong = times;
    std::swap(wrong.library[0], wrong.library[1]);
    controller deceived(wrong);
    for (int k = 0; k < 40; ++k) run(deceived, in, 50);
    EXPECT_GT(deceived.times().library[0].inner, 0.1);
    // What is no number of seconds teaches nothing.
    auto const before = deceived.times().library[0];
    std::vector<token_id> const token{0};
    for (double const seconds :
         {-1.0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
        topology const& shape = deceived.choose({{}, 0, 1});
        deceived.learn({{shape.parents(), token}, {}, {1.0, 0, seconds}});
    }
    EXPECT_EQ(deceived.times().library[0].step, before.step);
    EXPECT_EQ(deceived.times().library[0].inner, before.inner);
}

TEST(controller, is_a_function_of_what_came_about_where_its_times_stay) {
    auto const times = costs()[1];
    controller_options options;
    options.learns_times = false;
    std::vector<std::vector<std::string>> chosen(2);
    for (auto& names : chosen) {
        controller choices(times, options);
        world in{times, rates_of(0.6, 0.45)};
        std::vector<token_id> const tokens(512, 0);
        for (int k = 0; k < 300; ++k) {
            topology const& shape = choices.choose({{}, 100, 1});
            names.push_back(to_string(shape));
            auto const path = in.step(shape);
            // Seconds as a clock gives them, another number each time.
            choices.learn({{shape.parents(), span<token_id const>(tokens).first(at(shape.size()))},
                           path,
                           {1.0 + 0.1 * static_cast<double>(&names - chosen.data()), 0.1 * k, 0.5}});
        }
    }
    EXPECT_EQ(chosen[0], chosen[1]);
}

TEST(controller, grows_no_tree_deeper_than_it_may) {
    controller choices(costs()[0]);
    world in{costs()[0], rates_of(0.95, 0.45)};
    run(choices, in, 200);
    for (std::int32_t depth = 0; depth < 8; ++depth) EXPECT_LE(choices.choose({{}, depth, 1}).max_depth(), depth);
    controller none(costs()[0], {.nodes = 0});
    EXPECT_EQ(none.choose({{}, 9, 1}).size(), 1);
    EXPECT_EQ(none.depth(), 0);
    EXPECT_EQ(none.family_size(), 1U);
}

TEST(controller, names_bad_input) {
    auto const times = costs()[0];
    auto const has = [](std::string const& text, char const* part) {
        EXPECT_NE(text.find(part), std::string::npos) << text;
    };
    has(refusal([&] { controller({times.target, times.draft, {}}); }), "library.size = 0");
    has(refusal([&] { controller(times, {.nodes = -1}); }), "nodes = -1");
    has(refusal([&] { controller(times, {.depth = 33}); }), "depth = 33");
    has(refusal([&] { controller(times, {.children = 9}); }), "children = 9");
    has(refusal([&] { controller(times, {.memory = 0}); }), "memory = 0");
    has(refusal([&] { controller(times, {.prior = 1}); }), "prior = 1");
    has(refusal([&] { controller(times, {.slack = -1}); }), "slack = -1");
    has(refusal([&] { controller(times, {.credit = std::nan("")}); }), "credit = ");
    has(refusal([&] { controller(times, {.explore_every = -2}); }), "explore_every = -2");
    has(refusal([&] { controller(times, {.search_every = -2}); }), "search_every = -2");
}

// --- Exact laws ------------------------------------------------------------------------------------------------------

/// Chooses by everything that it may depend on: all of the text, and of all steps before every drafted token, every
/// shape and every accepted path.
class curious {
public:
    explicit curious(std::vector<topology> shapes, std::int32_t verifiers = 1, std::uint64_t seed = 1)
        : shapes_(std::move(shapes)), verifiers_(verifiers), seed_(seed) {}

    [[nodiscard]] std::int32_t depth() const { return 2; }
    void start() { seen_ = seed_; }
    [[nodiscard]] topology const& choose(step_situation const& situation) {
        for (token_id const x : situation.text) mix(x);
        mix(situation.unread);
        verifier_ = static_cast<std::int32_t>((seen_ >> 20U) % static_cast<std::uint64_t>(verifiers_));
        std::size_t k = (seen_ >> 33U) % shapes_.size();
        while (shapes_[k].max_depth() > situation.depth) k = (k + 1) % shapes_.size();
        ++chosen[k];
        return shapes_[k];
    }
    void learn(step_outcome const& outcome) {
        for (auto const x : outcome.tree.tokens) mix(x);
        for (auto const x : outcome.tree.parents) mix(x);
        for (auto const x : outcome.path) mix(x);
    }
    [[nodiscard]] std::int32_t const& verifier() const noexcept { return verifier_; }

    std::map<std::size_t, int> chosen;

private:
    void mix(std::int64_t x) {
        seen_ = (seen_ ^ static_cast<std::uint64_t>(x + 2)) * UINT64_C(0x9e3779b97f4a7c15);
        seen_ ^= seen_ >> 29U;
    }

    std::vector<topology> shapes_;
    std::int32_t verifiers_;
    std::int32_t verifier_ = 0;
    std::uint64_t seed_;
    std::uint64_t seen_ = 1;
};

constexpr std::int32_t vocabulary = 3;

template <class Sampler, class... Verifiers, class Controller>
void expect_exact(Controller& choices, std::vector<double> const& temperatures, int tokens, std::size_t ways) {
    auto const p = random_conditional(vocabulary, 11);
    table_model<double> target(vocabulary, p);
    table_model<double> draft(vocabulary, random_conditional(vocabulary, 12));
    std::vector<token_id> const prompt{1, 2};
    for (double const temperature : temperatures) {
        generation_options options;
        options.max_tokens = tokens;
        options.sampling.temperature = static_cast<float>(temperature);
        auto loop = make_controlled<Sampler, Verifiers...>(target, draft, choices);
        std::map<std::pair<std::int64_t, std::int64_t>, int> kinds;
        auto const result = law_of_loop(loop, prompt, options, [&](generation const& g) {
            ++kinds[{g.metrics.drafted, g.metrics.target_calls}];
            ASSERT_EQ(target.length(), static_cast<std::int32_t>(prompt.size()) + tokens - 1);
            ASSERT_LE(draft.length(), target.length());
        });
        EXPECT_NEAR(result.total, 1, 1e-12);
        EXPECT_LT(distance(result.law, true_law(p, vocabulary, prompt, tokens, options.sampling)), 1e-12);
        EXPECT_GE(kinds.size(), ways) << "the choices differ";
    }
}

TEST(controlled_loop, is_exact_with_a_controller_that_looks_at_all_that_has_come_about) {
    std::vector<topology> const shapes{topology(), chain(1), chain(2), branching({2})};
    std::map<std::size_t, int> chosen;
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {  // each begins in another way
        curious one(shapes, 1, seed);
        expect_exact<draft::sequential, verify::recursive_rejection<law::sequential>>(one, {1, 0.6}, 4, 2);
        curious several(shapes, 3, seed);
        expect_exact<draft::iid, verify::recursive_rejection<law::iid>, verify::k_seq<law::iid>,
                     verify::traversal<law::iid>>(several, {1}, 4, 2);
        chosen.insert(one.chosen.begin(), one.chosen.end());
    }
    EXPECT_EQ(chosen.size(), shapes.size());
    curious of_stratified({topology(), chain(1), branching({2})});
    expect_exact<draft::stratified, verify::ranked_block<law::stratified>>(of_stratified, {1}, 3, 2);
}

TEST(controlled_loop, is_exact_with_the_librarys_controller) {
    for (step_times const& times : costs()) {
        controller_options const options{.nodes = 3,
                                         .depth = 2,
                                         .children = 2,
                                         .memory = 2,
                                         .credit = 1e9,
                                         .explore_every = 2,
                                         .search_every = 3,
                                         .learns_times = false};
        // A controller with a past beyond the text would have another law of trees in each branch: a new one for each.
        struct fresh {
            step_times const& times;
            controller_options const& options;
            controller inner{times, options};
            [[nodiscard]] std::int32_t depth() const { return inner.depth(); }
            void start() { inner = controller(times, options); }
            [[nodiscard]] topology const& choose(step_situation const& s) { return inner.choose(s); }
            void learn(step_outcome const& outcome) { inner.learn(outcome); }
        } choices{times, options};
        expect_exact<draft::sequential, verify::recursive_rejection<law::sequential>>(choices, {1}, 4, 1);
    }
}

TEST(controlled_loop, is_exact_with_a_block_model) {
    auto const p = random_conditional(vocabulary, 11);
    table_model<double> target(vocabulary, p);
    testing::conditional_block block(vocabulary, 12);
    std::vector<token_id> const prompt{1, 2};
    generation_options options;
    options.max_tokens = 4;
    curious choices({topology(), chain(1), chain(2), branching({2})});
    auto loop = make_controlled<draft::stratified, verify::ranked_block<law::stratified>>(target, block, choices);
    std::map<std::int64_t, int> drafted;
    auto const result = law_of_loop(loop, prompt, options, [&](generation const& g) { ++drafted[g.metrics.drafted]; });
    EXPECT_LT(distance(result.law, true_law(p, vocabulary, prompt, 4, {})), 1e-12);
    EXPECT_GT(drafted.size(), 2U);
}

/// Records how many levels each call gives rows of.
struct counted_block : testing::table_block {
    using testing::table_block::table_block;
    void rows(std::span<token_id const> text, std::span<double> logits) {
        levels.push_back(static_cast<std::int32_t>(logits.size()) / vocabulary());
        testing::table_block::rows(text, logits);
    }
    std::vector<std::int32_t> levels;
};

TEST(controlled_loop, asks_a_block_model_for_the_levels_of_the_tree) {
    table_model<double> target(vocabulary, random_conditional(vocabulary, 11));
    counted_block block(vocabulary, 12, 6);
    std::vector<token_id> const prompt{1};
    generation_options options;
    options.max_tokens = 12;
    curious choices({topology(), chain(1), topology(), chain(2)});
    auto const text = make_controlled<draft::stratified, verify::ranked_block<law::stratified>>(target, block, choices)(
        prompt, options);
    EXPECT_EQ(text.metrics.draft_calls, static_cast<std::int64_t>(block.levels.size()));
    ASSERT_FALSE(block.levels.empty());
    for (std::int32_t const n : block.levels) EXPECT_TRUE(n == 1 || n == 2) << n;
    block.levels.clear();
    curious none({topology()});
    static_cast<void>(make_controlled<draft::stratified, verify::ranked_block<law::stratified>>(target, block, none)(
        prompt, options));
    EXPECT_TRUE(block.levels.empty());
}

TEST(controlled_loop, wants_times_of_the_draft_that_it_has) {
    table_model<double> target(vocabulary, random_conditional(vocabulary, 11));
    table_model<double> draft(vocabulary, random_conditional(vocabulary, 13));
    testing::table_block block(vocabulary, 12);
    step_times times{analysis::call_cost({{1, 1.0}}), analysis::call_cost({{1, 0.1}}), {{}}};
    auto const made = [&](auto& of_draft) {
        controller choices(times);
        return testing::refusal([&] {
            static_cast<void>(
                make_controlled<draft::stratified, verify::ranked_block<law::stratified>>(target, of_draft, choices));
        });
    };
    EXPECT_EQ(made(draft), "nothing was thrown");
    EXPECT_EQ(made(block), "choices.times.draft_in_one_call = false: a block model drafts all levels in one call");
    times.draft_in_one_call = true;
    EXPECT_EQ(made(draft), "choices.times.draft_in_one_call = true: the draft is called for each level");
    EXPECT_EQ(made(block), "nothing was thrown");
}

/// Where a call costs most of a step, one call for all levels allows deeper trees.
TEST(controller, counts_one_call_of_a_block_model_a_step) {
    auto const depth_with = [](bool in_one_call) {
        step_times times{analysis::call_cost({{1, 1.0}, {16, 1.1}}), analysis::call_cost({{1, 0.3}, {16, 0.31}}), {{}}};
        times.draft_in_one_call = in_one_call;
        controller choices(times, {.learns_times = false});
        choices.start();
        return choices.choose({{}, 6, 1}).max_depth();
    };
    EXPECT_GT(depth_with(true), depth_with(false));
    // What is learnt is the time of that call.
    step_times times{analysis::call_cost({{1, 1.0}, {16, 1.1}}), analysis::call_cost({{1, 0.3}, {6, 0.3}}), {{}}};
    times.draft_in_one_call = true;
    controller choices(times);
    choices.start();
    for (int step = 0; step < 200; ++step) {
        topology const& shape = choices.choose({{}, 6, 1});
        std::vector<token_id> const tokens(static_cast<std::size_t>(shape.size()), 0);
        std::vector<node_id> path;
        for (node_id v = 0; shape.child_count(v) > 0; v = shape.first_child(v)) path.push_back(shape.first_child(v));
        choices.learn({{shape.parents(), tokens}, path, {1.05, path.empty() ? 0.0 : 0.2, 0.0}});
    }
    EXPECT_NEAR(choices.times().draft(6), 0.2, 0.02);
}

TEST(step_times, learn_a_draft_that_was_thought_free) {
    step_times times{analysis::call_cost({{1, 1.0}}), analysis::call_cost({{1, 0.0}, {4, 0.0}}), {{}}};
    topology const shape = chain(2);
    std::vector<token_id> const tokens(3, 0);
    std::vector<node_id> const path{1};
    std::vector<std::int32_t> rows;
    for (int k = 0; k < 400; ++k) times.learn({{shape.parents(), tokens}, path, {1, 0.01, 0}}, 0, 1, rows);
    EXPECT_NEAR(times.draft(1), 0.005, 1e-5);
    EXPECT_THROW(times.learn({{shape.parents(), tokens}, path, {1, 0.01, 0}}, 1, 1, rows), invalid_input);
}

TEST(controller, learns_nothing_from_a_path_that_its_tree_does_not_have) {
    step_times const times{analysis::call_cost({{1, 1.0}, {16, 1.1}}), analysis::call_cost({{1, 0.01}}), {{}}};
    controller choices(times);
    choices.start();
    topology const shape = choices.choose({{}, 6, 1});
    ASSERT_GT(shape.size(), 2);
    std::vector<token_id> const tokens(static_cast<std::size_t>(shape.size()), 0);
    std::vector<node_id> path{shape.size()};
    auto const learnt = [&] { choices.learn({{shape.parents(), tokens}, path, {9, 9, 9}}); };
    EXPECT_THROW(learnt(), invalid_input);
    path = {shape.size() - 1};  // not a child of the root
    if (shape.parent(path[0]) != 0) {
        EXPECT_THROW(learnt(), invalid_input);
    }
    EXPECT_EQ(choices.times().target(1), 1.0);
    EXPECT_THROW(controller_options{.memory = 0}.validate(), invalid_input);
    EXPECT_THROW(controller_options{.prior = 7}.validate(), invalid_input);
}

TEST(controlled_loop, writes_the_greedy_text_at_temperature_0) {
    constexpr std::int32_t size = 40;
    auto const p = random_conditional(size, 1, 2, 0, 2.0);
    table_model<float> target(size, p);
    table_model<float> draft(size, random_conditional(size, 1, 1, 0, 2.0));
    generation_options options;
    options.max_tokens = 120;
    options.sampling.temperature = 0;
    std::vector<token_id> const prompt{3, 1, 4};
    auto const greedy = autoregressive(target, prompt, options).tokens;
    for (step_times times : costs()) {
        times.library.push_back({0.01, 0.001});
        controller choices(times);
        auto const found =
            make_controlled<draft::stratified, verify::ranked_block<law::stratified>,
                            verify::nested_ranked_block<law::stratified>>(target, draft, choices)(prompt, options);
        EXPECT_EQ(found.tokens, greedy);
    }
    // Where rows are free trees are drafted, and the text takes fewer calls.
    controller_options stays;
    stays.learns_times = false;
    controller choices(costs()[0], stays);
    auto const found = make_controlled<draft::sequential, verify::recursive_rejection<law::sequential>>(
        target, draft, choices)(prompt, options);
    EXPECT_EQ(found.tokens, greedy);
    EXPECT_GT(found.metrics.drafted, 0);
}

TEST(controlled_loop, has_times_of_each_of_its_verifiers) {
    table_model<double> target(vocabulary, random_conditional(vocabulary, 11));
    table_model<double> draft(vocabulary, random_conditional(vocabulary, 12));
    auto times = costs()[0];
    times.library = {{1e-6, 1e-7}, {1e-6, 1e-7}, {0, 0}};
    controller choices(times);
    EXPECT_EQ(refusal([&] {
                  static_cast<void>(
                      make_controlled<draft::iid, verify::recursive_rejection<law::iid>, verify::k_seq<law::iid>>(
                          target, draft, choices));
              }),
              "choices.verifiers = 3: the loop has 2, each with times in step_times::library");
}

TEST(one_of, takes_the_trees_that_all_of_them_take_alike) {
    using both_block = verify::one_of<verify::block<law::iid>, verify::speculative_sampling<law::iid>>;
    using one_any = verify::one_of<verify::block<law::iid>, verify::k_seq<law::iid>>;
    static_assert(verify::trees_of<both_block> == allowed_trees::chains);
    static_assert(verify::trees_of<one_any> == allowed_trees::any && one_any::traits.most_children == 0);
}

TEST(one_of, refuses_a_number_that_no_verifier_has) {
    table_model<double> target(vocabulary, random_conditional(vocabulary, 11));
    table_model<double> draft(vocabulary, random_conditional(vocabulary, 12));
    curious choices({chain(1)}, 7);
    auto loop = make_controlled<draft::iid, verify::recursive_rejection<law::iid>, verify::k_seq<law::iid>>(
        target, draft, choices);
    generation_options options;
    options.max_tokens = 60;
    std::vector<token_id> const prompt{1};
    EXPECT_NE(refusal([&] { loop(prompt, options); }).find("there are 2 verifiers"), std::string::npos);
}

}  // namespace
}  // namespace controller_test
}  // namespace multidraft
