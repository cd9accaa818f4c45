// The optimal static tree and the configuration search, against all trees of small budgets.
#include "multidraft/analysis/optimal_tree.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "multidraft/analysis/configuration_search.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/tree/shape_text.hpp"
#include "multidraft/tree/shapes.hpp"
#include "support/refusal.hpp"

namespace optimal_tree_test {
namespace {

namespace analysis = multidraft::analysis;
using multidraft::invalid_input;
using multidraft::node_id;
using multidraft::topology;
using multidraft::testing::refusal;

/// Calls `visit` with every tree of that many nodes, the root counted: parents that never decrease.
template <class Visit>
void every_tree(std::int32_t nodes, Visit visit) {
    std::vector<node_id> parents{multidraft::none};
    auto const more = [&](auto const& self) -> void {
        auto const size = static_cast<std::int32_t>(parents.size());
        if (size == nodes) {
            visit(topology::from_parents(parents));
            return;
        }
        for (node_id up = std::max(0, parents.back()); up < size; ++up) {
            parents.push_back(up);
            self(self);
            parents.pop_back();
        }
    };
    more(more);
}

analysis::rank_rates random_rates(std::mt19937_64& dice, std::size_t levels, std::size_t ranks) {
    std::uniform_real_distribution<double> uniform(0, 1);
    analysis::rank_rates rates(levels, std::vector<double>(ranks));
    for (auto& level : rates) {
        double sum = uniform(dice) * 0.3;
        for (double& x : level) sum += x = uniform(dice) < 0.2 ? 0 : uniform(dice);
        for (double& x : level) x /= sum > 0 ? sum : 1;  // in any order: a later rank may have a higher rate
    }
    return rates;
}

TEST(optimal_tree, accepts_as_much_as_the_best_of_all_trees) {
    std::mt19937_64 dice(3);
    for (int run = 0; run < 30; ++run) {
        auto const rates =
            random_rates(dice, 1 + static_cast<std::size_t>(run) % 4, 1 + static_cast<std::size_t>(run) % 3);
        double best = 0;
        for (std::int32_t nodes = 0; nodes <= 7; ++nodes) {
            every_tree(nodes + 1, [&](topology const& shape) {
                best = std::max(best, analysis::expected_accepted(shape, rates));
            });
            auto const found = analysis::optimal_tree(rates, nodes);
            EXPECT_NEAR(found.accepted, best, 1e-12) << run << ' ' << nodes;
            EXPECT_NEAR(analysis::expected_accepted(found.shape, rates), found.accepted, 1e-12);
            EXPECT_LE(found.shape.size(), nodes + 1);
            EXPECT_LE(found.shape.max_depth(), static_cast<std::int32_t>(rates.size()));
        }
        analysis::optimal_trees const trees(rates, 7);
        for (std::int32_t nodes = 0; nodes <= 7; ++nodes) {
            auto const one = analysis::optimal_tree(rates, nodes);
            EXPECT_EQ(trees(nodes), one.shape) << run << ' ' << nodes;
            EXPECT_EQ(trees.accepted(nodes), one.accepted) << run << ' ' << nodes;
        }
    }
}

TEST(optimal_tree, known_shapes) {
    std::vector<double> const sure{1.0};
    EXPECT_EQ(analysis::optimal_tree(sure, 5, 5).shape, multidraft::chain(5));
    EXPECT_EQ(analysis::optimal_tree(sure, 5, 3).shape, multidraft::chain(3));  // further nodes would gain nothing
    std::vector<double> const even{0.25, 0.25, 0.25, 0.25};
    EXPECT_EQ(analysis::optimal_tree(even, 4, 9).shape, multidraft::branching({4}));
    EXPECT_EQ(analysis::optimal_tree(even, 0, 9).shape, topology());
    EXPECT_EQ(analysis::optimal_tree(even, 9, 0).shape, topology());
    // 0.6 + 0.36 + 0.3 against 0.6 + 0.36 + 0.216.
    std::vector<double> const two{0.6, 0.3};
    auto const found = analysis::optimal_tree(two, 3, 3);
    EXPECT_NEAR(found.accepted, 1.26, 1e-12);
    EXPECT_EQ(multidraft::to_string(found.shape), "[-1 0 0 1]");
    // A good second rank requires a poor first one.
    std::vector<double> const later{0.05, 0.9};
    EXPECT_NEAR(analysis::optimal_tree(later, 4, 2).accepted, 0.95 + 0.9 * 0.95, 1e-12);
}

TEST(optimal_tree, refuses_rates_that_are_none) {
    std::vector<double> const above{1.5};
    std::vector<double> const too_much{0.7, 0.7};
    std::vector<double> const fine{0.7};
    EXPECT_THROW(static_cast<void>(analysis::optimal_tree(above, 3, 3)), invalid_input);
    EXPECT_THROW(static_cast<void>(analysis::optimal_tree(too_much, 3, 3)), invalid_input);
    EXPECT_THROW(static_cast<void>(analysis::optimal_tree(fine, -1, 3)), invalid_input);
    EXPECT_THROW(static_cast<void>(analysis::optimal_tree(fine, 3, -1)), invalid_input);
    EXPECT_THROW(analysis::optimal_trees({above}, 3), invalid_input);
    EXPECT_THROW(analysis::optimal_trees({fine}, -1), invalid_input);
    analysis::optimal_trees const trees({fine}, 3);
    EXPECT_THROW(static_cast<void>(trees(4)), invalid_input);
    EXPECT_THROW(static_cast<void>(trees.accepted(-1)), invalid_input);
}

TEST(configuration_search, costs_are_linear_between_what_was_measured) {
    analysis::call_cost const cost({{1, 2.0}, {4, 5.0}, {8, 6.0}});
    EXPECT_DOUBLE_EQ(cost(1), 2);
    EXPECT_DOUBLE_EQ(cost(2), 3);
    EXPECT_DOUBLE_EQ(cost(6), 5.5);
    EXPECT_DOUBLE_EQ(cost(16), 8);
    analysis::call_cost twice = cost;
    twice.scale(2);
    for (std::int32_t const rows : {1, 3, 4, 7, 12}) EXPECT_DOUBLE_EQ(twice(rows), 2 * cost(rows));
    // Times that fall by chance do not lead to calls of no time.
    analysis::call_cost const falling({{1, 1.0}, {2, 1.5}, {4, 1.4}});
    EXPECT_DOUBLE_EQ(falling(3), 1.45);
    EXPECT_EQ(falling(5), 1.4);
    EXPECT_EQ(falling(2000), 1.4);
    // Beyond the last point the curve, not the point, moves by the weight.
    analysis::call_cost far({{1, 1.0}, {2, 1.1}});
    for (int k = 0; k < 400; ++k) {
        double const before = far(100);
        far.learn(100, 8.0, 0.05);
        EXPECT_LE(std::abs(far(100) - 8.0), std::abs(before - 8.0));
    }
    EXPECT_NEAR(far(100), 8.0, 1e-6);
    constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    EXPECT_THROW(twice.learn(1, 2.0, nan), invalid_input);
    EXPECT_THROW(twice.scale(nan), invalid_input);
    EXPECT_THROW(twice.scale(-1), invalid_input);
    EXPECT_EQ(twice(1), 4.0);
    EXPECT_THROW(analysis::call_cost({}), invalid_input);
    EXPECT_THROW(analysis::call_cost({{4, 1.0}, {4, 2.0}}), invalid_input);
    EXPECT_THROW(analysis::call_cost({{1, -1.0}}), invalid_input);
}

TEST(configuration_search, finds_the_fastest) {
    analysis::rank_rates const rates(4, {0.5, 0.2, 0.1});
    // Nodes cost nothing: the largest tree; nodes cost much: none.
    analysis::step_costs const free_nodes{analysis::call_cost({{1, 1.0}}), analysis::call_cost({{1, 0.0}}), 0, 0};
    auto const large = analysis::best_k_configuration(rates, 12, free_nodes);
    auto const tree = analysis::best_tree(rates, 12, free_nodes);
    EXPECT_NEAR(tree.block_efficiency, 1 + analysis::optimal_tree(rates, 12).accepted, 1e-12);
    EXPECT_GE(tree.tokens_per_second(), large.tokens_per_second());
    double best = 0;
    for (char const* name :
         {"1",       "2",       "3",       "1x1",   "2x1",     "2x2",   "3x1",   "3x2",     "3x3",     "2x2x1",
          "1x1x1x1", "3x1x1x1", "2x1x1x1", "2x1x2", "2x1x2x1", "1x2x2", "1x3x2", "1x2x1x2", "1x1x2x2", "1x1x3x2"})
        best = std::max(best, analysis::evaluate(multidraft::parse_shape(name), rates, free_nodes).tokens_per_second());
    EXPECT_GE(large.tokens_per_second() + 1e-12, best);
    analysis::step_costs const dear{analysis::call_cost({{1, 1.0}, {2, 2.0}}), analysis::call_cost({{1, 1.0}}), 0, 0};
    EXPECT_EQ(analysis::best_tree(rates, 12, dear).shape, topology());
    EXPECT_EQ(analysis::best_k_configuration(rates, 12, dear).shape, topology());
}

// The search of Yang et al. 4.3: k1 k2 .. up to K, each up to K.
TEST(configuration_search, refuses_costs_that_are_none) {
    analysis::rank_rates const rates(3, {0.5, 0.2});
    analysis::step_costs costs{analysis::call_cost({{1, 1.0}}), analysis::call_cost({{1, 0.1}}), 0, 0};
    auto const found = [&](std::int32_t nodes) {
        return refusal([&] { static_cast<void>(analysis::best_tree(rates, nodes, costs)); });
    };
    EXPECT_EQ(found(4), "nothing was thrown");
    EXPECT_EQ(found(-1), "nodes = -1: the budget is 0 nodes or more");
    costs.rest = -1.05;
    EXPECT_EQ(found(4), "costs.rest = -1.05: seconds are finite and not negative");
    costs.rest = std::numeric_limits<double>::quiet_NaN();
    EXPECT_EQ(found(4), "costs.rest = nan: seconds are finite and not negative");
    EXPECT_EQ(refusal([&] { static_cast<void>(analysis::best_k_configuration(rates, 4, costs)); }),
              "costs.rest = nan: seconds are finite and not negative");
}

TEST(configuration_search, finds_the_fastest_of_some_candidates) {
    std::vector<double> ranks;
    for (int k = 0; k < 32; ++k) ranks.push_back(0.4 / (1 + k) / 4.1);
    analysis::rank_rates const rates(3, ranks);
    analysis::step_costs const free_nodes{analysis::call_cost({{1, 1.0}}), analysis::call_cost({{1, 0.05}}), 0, 0};
    analysis::rank_rates const one_level(1, ranks);
    EXPECT_EQ(analysis::best_k_configuration_of_candidates(one_level, 32, free_nodes).shape,
              multidraft::parse_shape("32"));
    for (std::int32_t const most : {1, 4, 12}) {
        double best = analysis::evaluate(topology(), rates, free_nodes).tokens_per_second();
        for (int a = 1; a <= most; ++a) {
            auto const offer = [&](std::string const& name) {
                best = std::max(
                    best, analysis::evaluate(multidraft::parse_shape(name), rates, free_nodes).tokens_per_second());
            };
            offer(std::to_string(a));
            for (int b = 1; a * b <= most; ++b) {
                offer(std::to_string(a) + "x" + std::to_string(b));
                for (int c = 1; a * b * c <= most; ++c)
                    offer(std::to_string(a) + "x" + std::to_string(b) + "x" + std::to_string(c));
            }
        }
        auto const found = analysis::best_k_configuration_of_candidates(rates, most, free_nodes);
        EXPECT_DOUBLE_EQ(found.tokens_per_second(), best) << most;
    }
    EXPECT_THROW(static_cast<void>(analysis::best_k_configuration_of_candidates(rates, 0, free_nodes)), invalid_input);
}

}  // namespace
}  // namespace optimal_tree_test
