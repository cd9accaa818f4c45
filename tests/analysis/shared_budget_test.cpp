// One budget of rows for the requests of a batch: the best trees for given costs.
#include "multidraft/analysis/shared_budget.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "multidraft/testing/test_numbers.hpp"

namespace {

using namespace multidraft;
using analysis::call_cost;
using analysis::expected_accepted;
using analysis::rank_rates;
using analysis::share_budget;
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

TEST(share_budget, of_one_request_is_the_optimal_tree_of_its_size) {
    test_numbers numbers(3);
    for (int run = 0; run < 40; ++run) {
        std::vector<rank_rates> const rates{random_rates(numbers, 3, 3)};
        auto const found = share_budget(rates, 12, costs_of(0.02 * run / 10, 0.01));
        auto const nodes = found.shapes.front().size() - 1;
        EXPECT_NEAR(found.tokens, 1 + expected_accepted(found.shapes.front(), rates.front()), 1e-12);
        EXPECT_NEAR(found.tokens, 1 + analysis::optimal_tree(rates.front(), nodes).accepted, 1e-12);
    }
}

/// No trees of two requests with as many nodes accept more, and none have more tokens per second.
TEST(share_budget, is_the_best_of_all_trees) {
    test_numbers numbers(4);
    for (int run = 0; run < 30; ++run) {
        std::vector<rank_rates> const rates{random_rates(numbers, 2, 2), random_rates(numbers, 2, 2)};
        auto const costs = costs_of(0.01 + 0.02 * (run % 7), 0.0);
        auto const found = share_budget(rates, 8, costs);
        double best = 0;
        for (std::int32_t a = 0; a <= 8; ++a)
            for (std::int32_t b = 0; a + b <= 8; ++b) {
                auto const one = analysis::optimal_tree(rates[0], a);
                auto const two = analysis::optimal_tree(rates[1], b);
                std::int32_t const nodes = one.shape.size() + two.shape.size() - 2;
                double const seconds = costs.target(2 + nodes) + costs.rest + costs.rest_per_node * nodes;
                best = std::max(best, (2 + one.accepted + two.accepted) / seconds);
            }
        EXPECT_NEAR(found.tokens_per_second(), best, 1e-9 * best);
        double tokens = 0;
        for (std::size_t r = 0; r < 2; ++r) tokens += 1 + expected_accepted(found.shapes[r], rates[r]);
        EXPECT_NEAR(found.tokens, tokens, 1e-12);
    }
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

TEST(share_budget, names_bad_input) {
    auto const refusal = [](std::vector<rank_rates> const& rates, std::int32_t nodes) -> std::string {
        try {
            static_cast<void>(share_budget(rates, nodes, costs_of(0.1, 0.1)));
        } catch (invalid_input const& e) {
            return e.what();
        }
        return "nothing was thrown";
    };
    auto const has = [](std::string const& text, char const* part) {
        EXPECT_NE(text.find(part), std::string::npos) << text;
    };
    has(refusal({}, 4), "rates.size = 0");
    has(refusal({{{0.5}}}, -1), "nodes = -1");
    has(refusal({{{0.5}, {0.2, 0.3}}}, 4), "rates[1] = 0.3");
    has(refusal({{{1.5}}}, 4), "rates[0] = 1.5");
    EXPECT_EQ(share_budget(std::vector<rank_rates>{{}}, 4, costs_of(0.1, 0.1)).shapes.front().size(), 1);
}

}  // namespace
