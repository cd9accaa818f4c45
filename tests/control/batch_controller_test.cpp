// The choice of the trees of a batch: close to the trees of the true rates, for requests that come and go.
#include "multidraft/control/batch_controller.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "control/known_world.hpp"
#include "multidraft/analysis/optimal_tree.hpp"
#include "multidraft/control/shared_budget.hpp"

namespace multidraft {
namespace batch_controller_test {
namespace {

using testing::at;
using testing::costs;
using testing::rates_of;
using testing::world;

/// The increase of a world's rates by each child.
analysis::rank_rates rank_rates_of(world const& in, std::int32_t depth, std::int32_t children) {
    analysis::rank_rates result(at(depth));
    for (std::int32_t level = 0; level < depth; ++level)
        for (std::int32_t n = 1; n <= children; ++n)
            result[at(level)].push_back(in.rate(level, n) - (n > 1 ? in.rate(level, n - 1) : 0));
    return result;
}

/// Requests of a batch, each in its own world, with texts of that many tokens after such a prompt.
struct batch {
    batch_controller choices;
    std::vector<world> worlds;
    int length;
    int prompt = 1;

    std::vector<std::int32_t> number{};
    std::vector<std::int32_t> unread{};
    std::vector<int> left{};
    double tokens = 0;
    double seconds = 0;

    void run(int steps) {
        std::vector<token_id> const ids(512, 0);
        if (number.empty()) {
            for (std::size_t r = 0; r < worlds.size(); ++r) number.push_back(choices.start());
            unread.assign(worlds.size(), prompt);
            left.assign(worlds.size(), length);
        }
        for (int k = 0; k < steps; ++k) {
            std::vector<batch_situation> step;
            for (std::size_t r = 0; r < worlds.size(); ++r) step.push_back({number[r], left[r] - 1, unread[r]});
            auto const shapes = choices.choose(step);
            ASSERT_EQ(shapes.size(), worlds.size());
            seconds += seconds_of(shapes);
            for (std::size_t r = 0; r < worlds.size(); ++r) {
                topology const& shape = shapes[r];
                ASSERT_LT(shape.max_depth(), left[r]);
                auto const path = worlds[r].step(shape);
                choices.learn(number[r],
                              {{shape.parents(), span<token_id const>(ids).first(at(shape.size()))}, path, {}});
                tokens += static_cast<double>(path.size() + 1);
                unread[r] = shape.size() == 1 ? unread[r] + 1 : 1;
                left[r] -= static_cast<int>(path.size()) + 1;
                if (left[r] > 0) continue;
                choices.end(number[r]);
                number[r] = choices.start();
                unread[r] = prompt;
                left[r] = length;
            }
        }
    }

    /// One call of the target for all rows, one of the draft for each level.
    [[nodiscard]] double seconds_of(std::span<topology const> shapes) const {
        step_times const& times = worlds.front().times;
        std::int32_t rows = 0;
        double result = 0;
        std::vector<std::int32_t> read;
        for (std::size_t r = 0; r < shapes.size(); ++r) {
            rows += shapes[r].size();
            result += times.library[0].step;
            for (node_id v = 0; v < shapes[r].size(); ++v) {
                if (shapes[r].child_count(v) == 0) continue;
                auto const level = at(shapes[r].depth(v));
                if (level >= read.size()) read.resize(level + 1, 0);
                read[level] += v == 0 ? unread[r] : 1;
                result += times.library[0].inner;
            }
        }
        for (std::int32_t const of_level : read) result += times.draft(of_level);
        return result + times.target(rows);
    }
};

std::vector<world> worlds_of(std::vector<double> const& rates, step_times const& times) {
    std::vector<world> result;
    for (std::size_t r = 0; r < rates.size(); ++r)
        result.push_back({times, rates_of(rates[r], 0.45), testing::test_numbers(r + 1)});
    return result;
}

TEST(batch_controller, comes_close_to_the_trees_of_the_true_rates) {
    for (step_times const& times : costs())
        for (std::size_t const requests : {1U, 4U, 16U}) {
            std::vector<double> rates;
            for (std::size_t r = 0; r < requests; ++r) rates.push_back(r % 2 == 0 ? 0.75 : 0.35);
            // What is best for all together, whoever is slowed.
            batch one{batch_controller(times, {.nodes = 64, .least_rate = 0}), worlds_of(rates, times), 200};
            one.run(600);
            std::vector<analysis::rank_rates> true_rates;
            for (world const& in : one.worlds) true_rates.push_back(rank_rates_of(in, 6, 4));
            double const step = times.library[0].step * static_cast<double>(requests);
            auto const best =
                share_budget(true_rates, 64, {times.target, times.draft, step, 0, times.library[0].inner});
            // The trees of these rates, in these worlds: ranks are not accepted as often there as the rates say.
            auto same = worlds_of(rates, times);
            double tokens = 0;
            for (int k = 0; k < 400; ++k)
                for (std::size_t r = 0; r < requests; ++r)
                    tokens += static_cast<double>(same[r].step(best.shapes[r]).size() + 1);
            EXPECT_GT(one.tokens / one.seconds, 0.93 * tokens / (400 * best.seconds)) << requests;
            double const none = static_cast<double>(requests) / (times.target(static_cast<int>(requests)) + step);
            EXPECT_GT(one.tokens / one.seconds, 0.97 * none) << requests;
        }
}

TEST(batch_controller, begins_a_request_with_what_others_have_shown) {
    auto const times = costs()[0];
    for (double const rate : {0.3, 0.9}) {
        batch one{batch_controller(times, {.nodes = 32}), worlds_of(std::vector<double>(4, rate), times), 60};
        EXPECT_NEAR(one.choices.rates(one.choices.start()).rate(0, 1), 0.6, 1e-9) << "the prior";
        one.choices.end(0);
        one.run(200);
        auto const next = one.choices.start();
        EXPECT_NEAR(one.choices.rates(next).rate(0, 1), rate, 0.1);
        double weight = 0;
        for (int n = 1; n <= 8; ++n) weight += one.choices.rates(next).tried(n);
        EXPECT_NEAR(weight, 20, 1e-9);
        batch alone{batch_controller(times, {.nodes = 32, .common = 0}), worlds_of(std::vector<double>(4, rate), times),
                    60};
        alone.run(200);
        EXPECT_NEAR(alone.choices.rates(alone.choices.start()).rate(0, 1), 0.6, 1e-9);
    }
}

TEST(batch_controller, gives_rows_to_whom_they_gain_most) {
    auto const times = costs()[1];
    batch one{batch_controller(times, {.nodes = 64}), worlds_of({0.9, 0.15, 0.9, 0.15}, times), 500};
    one.run(200);
    auto const& shapes = one.choices.expected().shapes;
    EXPECT_GT(shapes[0].size() + shapes[2].size(), 2 * (shapes[1].size() + shapes[3].size()));
}

TEST(batch_controller, pays_for_a_prompt_by_all_steps_of_the_request) {
    // The draft reads a prompt in the time of three steps; a text of 100 tokens gains tens of steps by it, one of four
    // tokens gains less.
    step_times const times{
        analysis::call_cost({{1, 1.0}, {64, 1.3}}), analysis::call_cost({{1, 0.02}, {301, 3.02}}), {{0, 0}}};
    for (int const length : {100, 4}) {
        batch one{batch_controller(times, {.nodes = 64}), worlds_of({0.8, 0.8, 0.8, 0.8}, times), length, 300};
        one.run(400);
        double const nothing = 4 / times.target(4);
        EXPECT_GT(one.tokens / one.seconds, (length > 4 ? 1.6 : 0.97) * nothing) << length;
    }
}

TEST(batch_controller, drafts_again_when_there_are_fewer_requests) {
    step_times const times{analysis::call_cost({{1, 1.0}, {8, 1.05}, {64, 20.0}}),
                           analysis::call_cost({{1, 0.01}, {64, 0.05}}),
                           {{0.001, 0.001}}};
    batch_controller choices(times, {.nodes = 64});
    std::vector<batch_situation> step;
    for (int r = 0; r < 32; ++r) step.push_back({choices.start(), 100, 1});
    for (auto const& shape : choices.choose(step)) EXPECT_EQ(shape.size(), 1);
    step.resize(2);
    for (auto const& shape : choices.choose(step)) EXPECT_GT(shape.size(), 1);
}

TEST(batch_controller, learns_what_calls_take_where_it_may) {
    // A row seems to be nearly free, and costs half a call.
    step_times const times{
        analysis::call_cost(
            {{1, 1.0}, {2, 1.0}, {3, 1.0}, {4, 1.0}, {6, 1.0}, {8, 1.01}, {16, 1.02}, {32, 1.05}, {64, 1.1}}),
        analysis::call_cost({{1, 0.01}}),
        {{0, 0}}};
    for (bool const learns : {false, true}) {
        batch_controller choices(times, {.nodes = 60, .learns_times = learns});
        std::vector<batch_situation> const step{{choices.start(), 100, 1}, {choices.start(), 100, 1}};
        std::int32_t last = 0;
        for (int k = 0; k < 300; ++k) {
            last = 0;
            for (auto const& shape : choices.choose(step)) last += shape.size();
            choices.learn_target_call(last, 1 + 0.5 * (last - 2));
            choices.learn_draft_call(2, 0.01);
        }
        EXPECT_EQ(last > 20, !learns) << last;
    }
}

TEST(batch_controller, learns_what_each_request_adds_to_a_call) {
    // Each request's own cache takes as long as half of a call of the roots: drafts cost less of a step than it seems.
    step_times const times{
        analysis::call_cost({{1, 0.9}, {8, 1.0}, {16, 1.65}, {64, 6.0}}), analysis::call_cost({{1, 0.05}}), {{0, 0}}};
    constexpr int requests = 8;
    double const own = 0.5 * times.target(requests) / requests;
    auto const rows_by = [&](bool learns) {
        batch_controller choices(times, {.nodes = 60, .learns_times = learns});
        std::vector<batch_situation> step;
        for (int r = 0; r < requests; ++r) step.push_back({choices.start(), 100, 1});
        std::int32_t rows = 0;
        for (int k = 0; k < 60; ++k) {
            rows = 0;
            for (auto const& shape : choices.choose(step)) rows += shape.size();
            choices.learn_target_call(rows, times.target(rows) + own * requests);
            choices.learn_draft_call(requests, 0.05);
        }
        double const draft = 0.05 * choices.expected().shapes.front().max_depth();
        if (learns) {
            EXPECT_NEAR(choices.expected().seconds, times.target(rows) + own * requests + draft,
                        0.1 * times.target(rows));
        }
        return rows;
    };
    EXPECT_GT(rows_by(true), rows_by(false));
}

TEST(batch_controller, does_not_avoid_trees_whose_calls_were_disturbed) {
    step_times const times{analysis::call_cost({{1, 1.0}, {2, 1.0}, {4, 1.02}, {8, 1.05}, {16, 1.1}, {32, 2.0}}),
                           analysis::call_cost({{1, 0.01}}),
                           {{0, 0}}};
    batch_controller choices(times, {.nodes = 20, .learns_times = true});
    std::vector<batch_situation> const step{{choices.start(), 100, 1}, {choices.start(), 100, 1}};
    auto const rows_of = [&] {
        std::int32_t rows = 0;
        for (auto const& shape : choices.choose(step)) rows += shape.size();
        return rows;
    };
    std::int32_t const before = rows_of();
    double tokens = 0;
    for (int k = 0; k < 400; ++k) {
        std::int32_t const rows = rows_of();
        // Every eighth call takes twice as long as it should.
        choices.learn_target_call(rows, times.target(rows) * (k % 8 == 0 ? 2 : 1));
        choices.learn_draft_call(2, 0.01);
        tokens += k < 200 ? 0 : rows;
    }
    EXPECT_NEAR(tokens / 200, before, 0.1 * before);
}

TEST(batch_controller, bounds_what_drafts_lose_that_the_times_do_not_tell) {
    // A draft seems nearly free and takes more than half a call; its time is learnt slowly.
    step_times const times{analysis::call_cost({{1, 1.0}, {2, 1.0}, {4, 1.0}, {8, 1.0}, {32, 2.0}}),
                           analysis::call_cost({{1, 1e-6}}),
                           {{0, 0}}};
    std::vector<token_id> const ids(64, 0);
    // Seconds for those that as many tokens take without drafts.
    auto const loss = [&](double slack, bool by_clock) {
        batch_controller choices(
            times, {.nodes = 6, .learns_times = by_clock, .slack = slack, .credit = slack, .least_rate = 0});
        std::vector<batch_situation> const step{{choices.start(), 100, 1}, {choices.start(), 100, 1}};
        double seconds = 0;
        double tokens = 0;
        for (int k = 0; k < 2000; ++k) {
            auto const shapes = choices.choose(step);
            std::vector<topology> const trees(shapes.begin(), shapes.end());
            std::int32_t rows = 0;
            for (topology const& tree : trees) rows += tree.size();
            double const draft = rows > 2 ? 0.6 : 0.0;
            seconds += 1.0 + draft;
            choices.learn_target_call(rows, 1.0);
            if (rows > 2) choices.learn_draft_call(2, draft);
            for (std::size_t r = 0; r < 2; ++r) {
                std::vector<node_id> path;
                if (trees[r].size() > 1 && (k + static_cast<int>(r)) % 3 == 0) path.push_back(1);
                choices.learn(step[r].request,
                              {{trees[r].parents(), span<token_id const>(ids).first(at(trees[r].size()))}, path, {}});
                tokens += static_cast<double>(path.size() + 1);
            }
        }
        return seconds / (tokens / 2);
    };
    EXPECT_GT(loss(1e9, true), 1.05) << "without a bound";
    EXPECT_LT(loss(0.0125, true), 1.03);
    EXPECT_GT(loss(0.0125, false), 1.1) << "without a clock nothing shows the loss";
}

TEST(batch_controller, no_request_pays_for_the_drafts_of_others) {
    // Rows are dear, drafts of the first request always accepted, those of the second never.
    step_times const times{
        analysis::call_cost({{1, 1.0}, {2, 1.0}, {32, 7.0}}), analysis::call_cost({{1, 0.01}}), {{0, 0}}};
    double const nothing = times.target(2);
    std::vector<token_id> const ids(64, 0);
    // The second request's rate of that without drafts, and the tokens a second of both.
    auto const rates = [&](double least) {
        batch_controller choices(times, {.nodes = 12, .least_rate = least});
        std::vector<batch_situation> const step{{choices.start(), 100, 1}, {choices.start(), 100, 1}};
        double seconds = 0, tokens = 0;
        int const steps = 600;
        for (int k = 0; k < steps; ++k) {
            auto const chosen = choices.choose(step);
            std::vector<topology> const trees(chosen.begin(), chosen.end());
            seconds += choices.expected().seconds;
            for (std::size_t r = 0; r < 2; ++r) {
                std::vector<node_id> path;
                for (node_id v = 0; r == 0 && trees[r].child_count(v) > 0; v = path.back())
                    path.push_back(trees[r].first_child(v));
                choices.learn(step[r].request,
                              {{trees[r].parents(), span<token_id const>(ids).first(at(trees[r].size()))}, path, {}});
                tokens += static_cast<double>(path.size() + 1);
            }
        }
        return std::pair(steps * nothing / seconds, tokens * nothing / seconds / 2);
    };
    auto const free = rates(0);
    auto const fair = rates(0.9);
    EXPECT_LT(free.first, 0.75);
    EXPECT_GE(fair.first, 0.895);
    EXPECT_GT(fair.second, 1.05) << "and still drafts";
    EXPECT_GT(free.second, fair.second);
}

TEST(batch_controller, names_bad_input) {
    auto const times = costs()[0];
    auto const refusal = [](std::function<void()> const& call) -> std::string {
        try {
            call();
        } catch (invalid_input const& e) {
            return e.what();
        }
        return "nothing was thrown";
    };
    auto const has = [](std::string const& text, char const* part) {
        EXPECT_NE(text.find(part), std::string::npos) << text;
    };
    has(refusal([&] { batch_controller(times, {.nodes = -1}); }), "nodes = -1");
    static_assert(batch_controller_options::most_nodes == most_shared_nodes);
    has(refusal([&] { batch_controller(times, {.nodes = most_shared_nodes + 1}); }), "nodes = 65537");
    has(refusal([&] { batch_controller(times, {.depth = 33}); }), "depth = 33");
    has(refusal([&] { batch_controller(times, {.children = 9}); }), "children = 9");
    has(refusal([&] { batch_controller(times, {.memory = 0}); }), "memory = 0");
    has(refusal([&] { batch_controller(times, {.slack = -0.1}); }), "slack = -0.1");
    has(refusal([&] { batch_controller(times, {.credit = -1}); }), "credit = -1");
    has(refusal([&] { batch_controller(times, {.least_rate = 1.1}); }), "least_rate = 1.1");
    has(refusal([&] { batch_controller(times, {.prior = 1}); }), "prior = 1");
    has(refusal([&] { batch_controller(times, {.common = -1}); }), "common = -1");
    has(refusal([&] { batch_controller({times.target, times.draft, {}}); }), "library.size = 0");
    batch_controller choices(times);
    has(refusal([&] { static_cast<void>(choices.choose({})); }), "step.size = 0");
    std::vector<batch_situation> step{{0, 3, 1}};
    has(refusal([&] { static_cast<void>(choices.choose(step)); }), "step[0].request = 0: no request");
    EXPECT_EQ(choices.start(), 0);
    EXPECT_EQ(choices.start(), 1);
    choices.end(0);
    has(refusal([&] { choices.end(0); }), "request = 0");
    has(refusal([&] { choices.learn(2, {}); }), "request = 2");
    EXPECT_EQ(choices.start(), 0);
    step[0].unread = 0;
    has(refusal([&] { static_cast<void>(choices.choose(step)); }), "step[0].unread = 0");
    step[0].unread = 1;
    std::vector<batch_situation> twice{{0, 3, 1}, {1, 3, 1}, {0, 0, 1}};
    EXPECT_EQ(choices.start(), 2);
    EXPECT_EQ(choices.start(), 3);
    twice[1].request = 2;
    has(refusal([&] { static_cast<void>(choices.choose(twice)); }), "step[2].request = 0");
    // Outcomes of no tree, and of another one.
    topology const longer = chain(8);
    std::vector<token_id> const tokens(9, 0);
    std::vector<node_id> const path{1, 2, 3, 4, 5, 6, 7, 8};
    step_outcome const outcome{{longer.parents(), tokens}, path, {}};
    has(refusal([&] { choices.learn(0, outcome); }), "request = 0: it had no part");
    static_cast<void>(choices.choose(step));
    has(refusal([&] { choices.learn(2, outcome); }), "request = 2: it had no part");
    has(refusal([&] { choices.learn(0, outcome); }), "outcome.path[3] = 4");
    for (double const seconds : {-1.0, std::numeric_limits<double>::quiet_NaN()})
        has(refusal([&] { batch_controller({times.target, times.draft, {{seconds, 0}}}); }), "library[0] = ");
    acceptance_history history;
    has(refusal([&] { history.begin_as(acceptance_history(), -1); }), "nodes = -1");
    for (double const steps : {-1.0, std::numeric_limits<double>::quiet_NaN()})
        has(refusal([&] { history.pass(steps); }), "a number of steps is not negative");
    history.pass(std::numeric_limits<double>::infinity());
    EXPECT_EQ(history.rate(0, 1), acceptance_history().rate(0, 1));
    has(refusal([&] { static_cast<void>(history.rank_rates(-1, 2)); }), "depth = -1");
    has(refusal([&] { static_cast<void>(acceptance_history{std::numeric_limits<double>::infinity()}); }),
        "memory = inf");
    has(refusal([&] { static_cast<void>(acceptance_history{100, 1e-310}); }), "prior = ");
}

}  // namespace
}  // namespace batch_controller_test
}  // namespace multidraft
