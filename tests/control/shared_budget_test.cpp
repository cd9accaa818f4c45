// One budget of rows for the requests of a batch: the best trees for given costs.
#include "multidraft/control/shared_budget.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "multidraft/testing/test_numbers.hpp"

namespace shared_budget_test {
namespace {

using namespace multidraft;
using analysis::call_cost;
using analysis::child_rates;
using analysis::expected_accepted;
using analysis::rank_rates;
using analysis::step_costs;
using multidraft::testing::test_numbers;

/// Rates that fall with the rank.
rank_rates random_rates(test_numbers& numbers, int levels, int ranks) {
    rank_rates rates;
    for (int l = 0; l < levels; ++l) {
        std::vector<double> level;
        double left = 1;
        double last = 1;
        for (int k = 0; k < ranks; ++k) {
            last = std::min(last, left) * numbers();
            level.push_back(last);
            left -= last;
        }
        rates.push_back(level);
    }
    return rates;
}

step_costs costs_of(double row, double draft) {
    return {call_cost({{1, 1.0}, {65, 1.0 + 64 * row}}), call_cost({{1, draft}, {65, draft + 64 * row * draft}}), 0.01,
            0.001};
}

/// Seconds of a step with these trees: in each call the rows of all of them.
double seconds_of(std::vector<topology> const& shapes, step_costs const& costs,
                  std::vector<std::int32_t> const& unread = {}) {
    std::int32_t nodes = 0;
    std::vector<std::int32_t> read;
    double inner = 0;
    for (std::size_t r = 0; r < shapes.size(); ++r)
        for (node_id v = 0; v < shapes[r].size(); ++v) {
            ++nodes;
            if (shapes[r].child_count(v) == 0) continue;
            inner += 1;
            auto const level = static_cast<std::size_t>(shapes[r].depth(v));
            if (read.size() <= level) read.resize(level + 1);
            read[level] += level == 0 && !unread.empty() ? unread[r] : 1;
        }
    double const drafted = nodes - static_cast<double>(shapes.size());
    double seconds = costs.target(nodes) + costs.rest + costs.rest_per_node * drafted + costs.rest_per_inner * inner;
    for (std::int32_t const rows : read) seconds += costs.draft(rows);
    return seconds;
}

TEST(share_budget, of_one_request_is_the_best_of_the_optimal_trees) {
    test_numbers numbers(3);
    for (int run = 0; run < 40; ++run) {
        std::vector<rank_rates> const rates{random_rates(numbers, 3, 3)};
        auto costs = costs_of(0.02 * run / 10, 0.02 * (run % 5));
        costs.rest_per_inner = 0.002;
        auto const found = share_budget(rates, 12, costs);
        EXPECT_NEAR(found.tokens, 1 + expected_accepted(found.shapes.front(), rates.front()), 1e-12);
        EXPECT_NEAR(found.seconds, seconds_of(found.shapes, costs), 1e-12);
        double best = 0;
        for (std::size_t depth = 0; depth <= 3; ++depth) {
            rank_rates const upper(rates.front().begin(), rates.front().begin() + static_cast<std::ptrdiff_t>(depth));
            for (std::int32_t n = 0; n <= 12; ++n) {
                auto const one = analysis::optimal_tree(upper, n);
                best = std::max(best, (1 + one.accepted) / seconds_of({one.shape}, costs));
            }
        }
        EXPECT_NEAR(found.tokens_per_second(), best, 1e-9 * best);
    }
}

/// No trees of two requests with as many nodes and levels accept more, and none have more tokens per second.
TEST(share_budget, is_the_best_of_all_trees) {
    test_numbers numbers(4);
    int shallower = 0;
    for (int run = 0; run < 60; ++run) {
        std::vector<rank_rates> const rates{random_rates(numbers, 3, 2), random_rates(numbers, 3, 2)};
        double const call = run % 2 == 0 ? 0 : 0.03 * (run % 11);
        step_costs costs = costs_of(0.01 + 0.02 * (run % 7), 0);
        costs.draft = call_cost({{1, call}});
        auto const found = share_budget(rates, 8, costs);
        double best = 0;
        double best_of_deepest = 0;
        for (std::size_t depth = 0; depth <= 3; ++depth)
            for (std::int32_t a = 0; a <= 8; ++a)
                for (std::int32_t b = 0; a + b <= 8; ++b) {
                    auto const upper = [depth](rank_rates const& all) {
                        return rank_rates(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(depth));
                    };
                    auto const one = analysis::optimal_tree(upper(rates[0]), a);
                    auto const two = analysis::optimal_tree(upper(rates[1]), b);
                    double const value = (2 + one.accepted + two.accepted) / seconds_of({one.shape, two.shape}, costs);
                    best = std::max(best, value);
                    if (depth == 3) best_of_deepest = std::max(best_of_deepest, value);
                }
        shallower += best > best_of_deepest * (1 + 1e-9) ? 1 : 0;
        EXPECT_NEAR(found.tokens_per_second(), best, 1e-9 * best);
        double tokens = 0;
        for (std::size_t r = 0; r < 2; ++r) tokens += 1 + expected_accepted(found.shapes[r], rates[r]);
        EXPECT_NEAR(found.tokens, tokens, 1e-12);
    }
    EXPECT_GT(shallower, 0) << "trees of fewer levels are wider";
}

/// A jump of the curve is crossed where what lies beyond it pays, and else not.
TEST(share_budget, crosses_jumps_of_the_times_that_pay) {
    std::vector<rank_rates> const rates(4, rank_rates(4, {0.8}));
    call_cost const draft({{1, 0.01}});
    auto const rows = [&](double after) {
        step_costs const costs{call_cost({{1, 1.0}, {6, 1.0}, {7, after}, {64, after}}), draft};
        std::int32_t sum = 0;
        for (auto const& shape : share_budget(rates, 64, costs).shapes) sum += shape.size();
        return sum;
    };
    EXPECT_EQ(rows(1.5), 20) << "all four levels";
    EXPECT_EQ(rows(3.0), 6) << "what fits before the jump";
}

TEST(share_budget, gives_roots_alone_where_no_tree_may_gain) {
    test_numbers numbers(11);
    std::int32_t none_may = 0;
    std::int32_t some_drafted = 0;
    for (int round = 0; round < 400; ++round) {
        std::vector<rank_rates> rates;
        double each = 0;
        for (int r = 0; r < 1 + round % 4; ++r) {
            rates.push_back(random_rates(numbers, 3, 3));
            // Rates that fall with the rank: no two children have more a node than one.
            for (std::vector<double> const& level : rates.back()) each = std::max(each, level[0]);
        }
        auto const requests = static_cast<std::int32_t>(rates.size());
        step_costs const costs = costs_of(0.1 + numbers(), 0.01 * numbers());
        bool const may = trees_may_gain(each, requests, 12, costs);
        std::int32_t drafted = 0;
        for (topology const& shape : share_budget(rates, 12, costs).shapes) drafted += shape.size() - 1;
        EXPECT_TRUE(may || drafted == 0) << round;
        none_may += may ? 0 : 1;
        some_drafted += drafted > 0 ? 1 : 0;
    }
    EXPECT_GT(none_may, 50);
    EXPECT_GT(some_drafted, 50);
    // Exact for chains of one node whose draft costs nothing: 1 / (1 + 0.5) tokens a second, or 1.x / 1.5.
    step_costs const costs{call_cost({{1, 1.0}, {2, 1.5}}), call_cost({{1, 0.0}, {2, 0.0}}), 0};
    for (double const rate : {0.49, 0.51}) {
        std::vector<rank_rates> const one{{{rate}}};
        EXPECT_EQ(trees_may_gain(rate, 1, 4, costs), rate > 0.5);
        EXPECT_EQ(share_budget(one, 4, costs).shapes[0].size(), rate > 0.5 ? 2 : 1);
    }
}

TEST(share_budget, counts_what_the_draft_has_not_read) {
    std::vector<rank_rates> const rates(2, rank_rates(2, {0.7}));
    step_costs const costs{call_cost({{1, 1.0}, {64, 1.5}}), call_cost({{1, 0.01}, {101, 1.01}})};
    std::vector<std::int32_t> const little{1, 2};
    auto const found = share_budget(rates, 8, costs, little);
    EXPECT_EQ(found.shapes[0].size() + found.shapes[1].size(), 6);
    EXPECT_NEAR(found.seconds, seconds_of(found.shapes, costs, little), 1e-12);
    std::vector<std::int32_t> const much{200, 200};
    EXPECT_EQ(share_budget(rates, 8, costs, much).shapes[0].size(), 1);
}

TEST(share_budget, counts_one_call_for_all_levels) {
    std::vector<rank_rates> const rates(2, rank_rates(4, {0.8}));
    step_costs const costs{call_cost({{1, 1.0}, {64, 1.5}}), call_cost({{1, 0.3}, {2, 0.5}})};
    // A call for each level is too dear for four of them, one for all is not.
    EXPECT_EQ(share_budget(rates, 16, costs).shapes[0], chain(2));
    auto const found = share_budget(rates, 16, costs, {}, true);
    for (auto const& shape : found.shapes) EXPECT_EQ(shape, chain(4));
    EXPECT_NEAR(found.seconds, costs.target(10) + costs.draft(2), 1e-12);
}

TEST(share_budget, leaves_out_a_request_whose_prompt_would_cost_more_than_its_tree_gains) {
    step_costs const costs{call_cost({{1, 1.0}, {100, 1.1}}), call_cost({{1, 0.01}, {10001, 10.0}}), 0, 0, 0};
    // The new request has the better rates, and a prompt that the draft has not read.
    std::vector<rank_rates> const rates{{{0.59}, {0.59}}, {{0.6}, {0.6}}};
    auto const found = share_budget(rates, 8, costs, std::vector<std::int32_t>{1, 10000});
    EXPECT_EQ(found.shapes[0], chain(2));
    EXPECT_EQ(found.shapes[1].size(), 1);
    EXPECT_NEAR(found.seconds, costs.target(4) + 2 * costs.draft(1), 1e-12);
    // Where nothing is left of its prompt, it drafts.
    EXPECT_EQ(share_budget(rates, 8, costs, std::vector<std::int32_t>{1, 2}).shapes[1], chain(2));
    // Sums that no integer holds.
    std::vector<std::int32_t> const huge(2, 2147483647);
    EXPECT_EQ(share_budget(rates, 8, costs, huge).shapes[0].size(), 1);
}

TEST(share_budget, gives_the_rows_to_whom_they_gain_most) {
    rank_rates const sure(4, {0.9, 0.05});
    rank_rates const unsure(4, {0.2, 0.1});
    auto const costs = costs_of(0.1, 0.01);
    auto const found = share_budget(std::vector<rank_rates>{unsure, sure, unsure}, 16, costs);
    EXPECT_EQ(found.shapes[0].size(), 1);
    EXPECT_EQ(found.shapes[2].size(), 1);
    EXPECT_EQ(found.shapes[1].max_depth(), 4);
    // A row that costs a call does not pay; a free one always pays.
    for (auto const& shape : share_budget(std::vector<rank_rates>{unsure, sure}, 16, costs_of(1.0, 0.5)).shapes)
        EXPECT_EQ(shape.size(), 1);
    auto const all =
        share_budget(std::vector<rank_rates>{unsure, sure}, 16, {call_cost({{1, 1.0}}), call_cost({{1, 0.0}})});
    EXPECT_EQ(all.shapes[0].size() + all.shapes[1].size(), 18);
    // The more requests, the fewer rows each has.
    node_id last = 1000;
    for (std::size_t const requests : {1U, 4U, 16U, 64U}) {
        step_costs const grows{call_cost({{1, 1.0}, {16, 1.3}, {64, 3.0}, {256, 12.0}}),
                               call_cost({{1, 0.02}, {256, 0.2}})};
        auto const shared = share_budget(std::vector<rank_rates>(requests, rank_rates(5, {0.6, 0.1})), 512, grows);
        node_id most = 0;
        for (auto const& shape : shared.shapes) most = std::max(most, shape.size());
        EXPECT_LE(most, last);
        last = most;
        EXPECT_GE(shared.tokens_per_second(), static_cast<double>(requests) / grows.target(static_cast<int>(requests)));
    }
    EXPECT_LE(last, 3);
}

/// 0.7 * 0.3 * 0.1 and 0.7 * 0.1 * 0.3 differ by rounding, and so may the times of trees: neither decides.
TEST(share_budget, rounding_decides_nothing) {
    rank_rates const one{{0.7}, {0.3}, {0.1}};
    rank_rates const other{{0.7}, {0.1}, {0.3}};
    ASSERT_NE(0.7 * 0.3 * 0.1, 0.7 * 0.1 * 0.3);
    step_costs const free{call_cost({{1, 1.0}}), call_cost({{1, 0.0}})};
    for (auto const& rates : {std::vector<rank_rates>{one, other}, std::vector<rank_rates>{other, one}}) {
        auto const found = share_budget(rates, 5, free);
        EXPECT_EQ(found.shapes[0].size(), 4);
        EXPECT_EQ(found.shapes[1].size(), 3);
    }
    // Each row gains as much as it costs: no tree, however sums are rounded.
    for (double const rate : {0.1, 0.3, 0.7, 1.0 / 3}) {
        step_costs const even{call_cost({{1, 1.0}, {2, 1.0 + rate}}), call_cost({{1, 0.0}})};
        EXPECT_EQ(share_budget(std::vector<rank_rates>{{{rate}}}, 1, even).shapes.front().size(), 1) << rate;
    }
}

/// Expected accepted nodes below a node, by the rates of nodes with as many children.
double accepted_below(topology const& shape, child_rates const& rates, node_id node) {
    auto const n = static_cast<std::size_t>(shape.child_count(node));
    double sum = 0;
    for (std::size_t k = 0; k < n; ++k)
        sum += rates[static_cast<std::size_t>(shape.depth(node))][n - 1][k] *
               (1 + accepted_below(shape, rates, shape.first_child(node) + static_cast<node_id>(k)));
    return sum;
}

TEST(share_budget, expects_of_a_tree_what_nodes_with_as_many_children_accept) {
    test_numbers numbers(5);
    for (int round = 0; round < 20; ++round) {
        std::vector<child_rates> rates(2);
        for (child_rates& one : rates)
            for (int level = 0; level < 3; ++level) {
                auto& of_level = one.emplace_back();
                double whole = 0;
                for (int n = 1; n <= 3; ++n) {
                    whole += 0.5 * (1 - whole) * numbers();
                    double parts = 0;
                    auto& of_number = of_level.emplace_back();
                    for (int k = 0; k < n; ++k) parts += of_number.emplace_back(0.1 + numbers());
                    for (double& rate : of_number) rate *= whole / parts;
                }
            }
        auto const found = share_budget(rates, 12, costs_of(0.01, 0.05));
        double expected = 2;
        for (std::size_t r = 0; r < 2; ++r) expected += accepted_below(found.shapes[r], rates[r], 0);
        EXPECT_NEAR(found.tokens, expected, 1e-12);
    }
}

TEST(share_budget, takes_a_chain_where_siblings_take_their_acceptance_from_each_other) {
    // Two children are accepted hardly more often than one, and then either of them: nothing may be built on the first.
    child_rates const siblings(2, {{0.7}, {0.36, 0.36}});
    rank_rates const increases(2, {0.7, 0.02});
    step_costs const free{call_cost({{1, 1.0}}), call_cost({{1, 0.0}})};
    auto const exact = share_budget(std::vector<child_rates>{siblings}, 3, free);
    EXPECT_EQ(exact.shapes.front().max_depth(), 2);
    EXPECT_NEAR(exact.tokens, 1 + accepted_below(exact.shapes.front(), siblings, 0), 1e-12);
    auto const assumed = share_budget(std::vector<rank_rates>{increases}, 3, free);
    EXPECT_LE(accepted_below(assumed.shapes.front(), siblings, 0), exact.tokens - 1);
    EXPECT_GT(assumed.tokens - 1, accepted_below(assumed.shapes.front(), siblings, 0)) << "promises too much";
}

TEST(cheapest_further, is_the_least_slope_to_the_right) {
    test_numbers numbers(3);
    for (int round = 0; round < 50; ++round) {
        std::vector<double> seconds{1.0};
        for (int k = 0; k < 12; ++k) seconds.push_back(seconds.back() + (k % 3 == 0 ? 0.0 : numbers()));
        auto const found = multidraft::detail::cheapest_further(seconds);
        for (std::size_t a = 0; a + 1 < seconds.size(); ++a) {
            double least = 1e9;
            for (std::size_t b = a + 1; b < seconds.size(); ++b)
                least = std::min(least, (seconds[b] - seconds[a]) / static_cast<double>(b - a));
            EXPECT_NEAR(found[a], least, 1e-12) << a;
        }
    }
}

TEST(shared_budget, leaves_each_request_a_part_of_its_rate) {
    // One request accepts nearly all, the other nearly nothing.
    std::vector<child_rates> const rates{{{{0.95}}, {{0.95}}, {{0.95}}, {{0.95}}}, {{{0.01}}}};
    step_costs const costs{call_cost({{1, 1.0}, {2, 1.0}, {34, 2.0}}), call_cost({{1, 0.01}}), 0, 0};
    double const nothing = costs.target(2);
    auto const share = [&](rate_floor const& floor) { return share_budget(rates, 16, costs, {}, false, floor); };
    auto const best = share({});
    EXPECT_GT(best.seconds, 1.15 * nothing);
    for (double const least : {0.9, 0.95}) {
        auto const fair = share({least});
        EXPECT_LE(least * fair.seconds, 1.02 * nothing);
        EXPECT_GT(fair.tokens, 2.5) << least;
        EXPECT_LT(fair.tokens_per_second(), best.tokens_per_second());
    }
    // By what a request has gained so far, or lost.
    std::vector<double> lost{0, -10};
    EXPECT_EQ(share({0.9, lost}).shapes, best.shapes);
    lost = {0.3, 0.3};
    EXPECT_EQ(share({0.9, lost}).tokens, 2);
}

TEST(share_budget, names_bad_input) {
    auto const of_numbers = [](child_rates const& rates) {
        return share_budget(std::vector<child_rates>{rates}, 4, costs_of(0.1, 0.1));
    };
    EXPECT_THROW(static_cast<void>(of_numbers({{{0.5}, {0.6}}})), invalid_input) << "two rates of two children";
    EXPECT_THROW(static_cast<void>(of_numbers({{{0.5}, {0.2, 0.2}}})), invalid_input) << "two less often than one";
    EXPECT_THROW(static_cast<void>(of_numbers({{{1.5}}})), invalid_input);
    EXPECT_THROW(static_cast<void>(of_numbers({{{0.5}, {0.6, 0.6}}})), invalid_input);

    auto const refusal = [](std::vector<rank_rates> const& rates, std::int32_t nodes,
                            std::vector<std::int32_t> const& unread = {}) -> std::string {
        try {
            static_cast<void>(share_budget(rates, nodes, costs_of(0.1, 0.1), unread));
        } catch (invalid_input const& e) {
            return e.what();
        }
        return "nothing was thrown";
    };
    auto const has = [](std::string const& text, char const* part) {
        EXPECT_NE(text.find(part), std::string::npos) << text;
    };
    std::vector<child_rates> const one{{{{0.5}}}};
    std::vector<double> const two(2);
    EXPECT_THROW(static_cast<void>(share_budget(one, 4, costs_of(0.1, 0.1), {}, false, {1.5})), invalid_input);
    EXPECT_THROW(static_cast<void>(share_budget(one, 4, costs_of(0.1, 0.1), {}, false, {0.5, two})), invalid_input);
    has(refusal({}, 4), "rates.size = 0");
    for (double const bad : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
        auto costs = costs_of(0.1, 0.1);
        costs.rest_per_node = bad;
        EXPECT_THROW(static_cast<void>(share_budget(std::vector<rank_rates>{{{0.5}}}, 4, costs)), invalid_input);
    }
    has(refusal({{{0.5}}}, -1), "nodes = -1");
    has(refusal({{{0.5}}}, most_shared_nodes + 1), "nodes = 65537");
    has(refusal({{{0.5}, {0.2, 0.3}}}, 4), "rates[1] = 0.3");
    has(refusal({{{1.5}}}, 4), "rates[0] = 1.5");
    has(refusal({{{0.5}}}, 4, {1, 1}), "unread.size = 2");
    has(refusal({{{0.5}}}, 4, {0}), "unread[0] = 0");
    EXPECT_EQ(share_budget(std::vector<rank_rates>{{}}, 4, costs_of(0.1, 0.1)).shapes.front().size(), 1);
}

}  // namespace
}  // namespace shared_budget_test
