// Shapes chosen from all rows of a step: best first, within their budget, and DDTree's where all children are certain.
#include "multidraft/draft/shape_of_rows.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>
#include <vector>

#include "multidraft/base/error.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/draft/top_n.hpp"
#include "multidraft/testing/test_numbers.hpp"
#include "multidraft/tree/shapes.hpp"

namespace multidraft {
namespace shape_of_rows_test {
namespace {

using draft::child_rates;
using draft::depth_outlook;
using draft::shape_budget;
using draft::shape_of_rows;

std::vector<std::vector<double>> falling_rows(std::size_t depths, std::size_t n, std::uint64_t seed) {
    testing::test_numbers next(seed);
    std::vector<std::vector<double>> rows(depths, std::vector<double>(n));
    for (auto& row : rows) {
        double left = 1;
        for (double& x : row) {
            x = left * (0.2 + 0.6 * next());
            left -= x;
        }
        std::sort(row.rbegin(), row.rend());
    }
    return rows;
}

std::vector<depth_outlook> outlook_of(std::vector<std::vector<double>> const& rows, child_rates const& rates = {}) {
    std::vector<depth_outlook> out;
    for (auto const& row : rows) out.push_back({row, rates});
    return out;
}

/// The expected accepted tokens of a shape, from the root down.
template <class Sampler>
double value_of(topology const& shape, Sampler const& sampler, std::vector<depth_outlook> const& rows) {
    std::function<double(node_id)> const below = [&](node_id v) -> double {
        index_t const n = shape.child_count(v);
        if (n == 0) return 0;
        auto const& row = rows[static_cast<std::size_t>(shape.depth(v))];
        auto const chances = chances_of(sampler, row.likeliest, n, row.rates);
        double sum = 0;
        for (index_t k = 0; k < n; ++k)
            sum += chances.of_child(row.likeliest, k) * (1 + below(shape.first_child(v) + k));
        return sum;
    };
    return below(0);
}

/// The prefixes of the largest products of probabilities, as DDTree's heap takes them: their paths of ranks.
topology best_products(std::vector<std::vector<double>> const& rows, std::size_t nodes, std::size_t children) {
    struct path {
        double product;
        std::vector<std::int32_t> ranks;
        bool operator<(path const& other) const { return product < other.product; }
    };
    std::priority_queue<path> heap;
    heap.push({rows[0][0], {0}});
    std::vector<std::vector<std::int32_t>> taken;
    while (taken.size() < nodes && !heap.empty()) {
        path const best = heap.top();
        heap.pop();
        taken.push_back(best.ranks);
        std::size_t const d = best.ranks.size() - 1;
        auto const rank = static_cast<std::size_t>(best.ranks.back());
        if (rank + 1 < children) {
            path sibling = best;
            sibling.product *= rows[d][rank + 1] / rows[d][rank];
            ++sibling.ranks.back();
            heap.push(sibling);
        }
        if (d + 1 < rows.size()) {
            path child = best;
            child.product *= rows[d + 1][0];
            child.ranks.push_back(0);
            heap.push(child);
        }
    }
    return from_choices(taken);
}

TEST(shape_of_rows, with_certain_children_is_the_tree_of_the_largest_products) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed)
        for (node_id const nodes : {0, 1, 7, 30, 64}) {
            auto const rows = falling_rows(4, 5, seed);
            auto const found = shape_of_rows(draft::top_n{}, outlook_of(rows), {.nodes = nodes, .children = 5});
            topology const expected = nodes == 0 ? topology() : best_products(rows, static_cast<std::size_t>(nodes), 5);
            EXPECT_EQ(found, expected) << "seed " << seed << ", " << nodes << " nodes";
        }
}

TEST(shape_of_rows, keeps_its_budget) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        auto const rows = falling_rows(5, 3, seed);
        for (shape_budget const& budget :
             {shape_budget{.nodes = 12, .children = 3}, {.nodes = 40, .children = 2}, {.nodes = 40, .least = 0.1}}) {
            auto const shape = shape_of_rows(draft::stratified{}, outlook_of(rows), budget);
            EXPECT_LE(shape.size(), budget.nodes + 1);
            EXPECT_LE(shape.max_depth(), 5);
            for (node_id v = 0; v < shape.size(); ++v) EXPECT_LE(shape.child_count(v), std::min(budget.children, 4));
        }
        auto const dear = shape_of_rows(draft::stratified{}, outlook_of(rows), {.nodes = 40, .least = 1});
        EXPECT_EQ(dear.size(), 1);
    }
}

TEST(shape_growth, knows_its_tree_before_it_is_made) {
    draft::shape_growth growth;
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        auto const rows = falling_rows(5, 4, seed);
        auto const outlook = outlook_of(rows);
        draft::stratified const sampler;
        draft::chances_by_row const chances(sampler, outlook, 4);
        EXPECT_EQ(chances.depth(), 5);
        EXPECT_EQ(chances.children(), 4);
        for (shape_budget const& budget : {shape_budget{.nodes = 0},
                                           {.nodes = 1},
                                           {.nodes = 9, .children = 3},
                                           {.nodes = 30},
                                           {.nodes = 7, .children = 2, .least = 0.2}}) {
            growth.grow(chances, budget);
            topology const shape = growth.shape();
            EXPECT_EQ(shape, shape_of_rows(sampler, outlook, budget)) << "seed " << seed;
            EXPECT_EQ(growth.size(), shape.size());
            EXPECT_EQ(growth.depth(), shape.max_depth());
            node_id inner = 0;
            for (node_id v = 0; v < shape.size(); ++v) inner += shape.child_count(v) > 0 ? 1 : 0;
            EXPECT_EQ(growth.inner(), inner);
            EXPECT_NEAR(growth.tokens(), value_of(shape, sampler, outlook), 1e-12);
        }
        for (std::int32_t d = 0; d < 5; ++d)
            for (index_t n = 1; n <= 4; ++n) {
                double sum = 0;
                for (index_t k = 0; k < n; ++k) sum += chances(d, n, k);
                EXPECT_EQ(chances.any(d, n), sum);
            }
        EXPECT_THROW(growth.grow(chances, {.children = 5}), invalid_input);
        EXPECT_THROW(growth.grow(chances, {.nodes = -1}), invalid_input);
    }
}

/// Of all shapes of as many nodes with up to three children and three levels none is better.
TEST(shape_of_rows, is_the_best) {
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        auto const rows = falling_rows(3, 4, seed);
        auto const outlook = outlook_of(rows);
        draft::stratified const sampler;
        auto const found = shape_of_rows(sampler, outlook, {.nodes = 5, .children = 3});
        double best = 0;
        // Shapes of five nodes: the parents of nodes 2 to 5, in level order.
        for (node_id b = 0; b <= 1; ++b)
            for (node_id c = b; c <= 2; ++c)
                for (node_id d = c; d <= 3; ++d)
                    for (node_id e = d; e <= 4; ++e) {
                        std::vector<node_id> const parents{none, 0, b, c, d, e};
                        auto const shape = topology::from_parents(parents);
                        if (shape.max_depth() > 3) continue;
                        bool fits = true;
                        for (node_id v = 0; v < shape.size(); ++v) fits = fits && shape.child_count(v) <= 3;
                        if (fits) best = std::max(best, value_of(shape, sampler, outlook));
                    }
        EXPECT_NEAR(value_of(found, sampler, outlook), best, 1e-12);
    }
}

/// Draws that are all alike: two branches are worth more than one, and neither alone is worth its first node.
TEST(shape_of_rows, divides_the_nodes_among_branches) {
    std::vector<double> const flat(4, 0.001);
    std::vector<depth_outlook> const outlook(4, {flat, {.certain = 1, .draw = 0.5, .other = 0.5}});
    draft::stratified const sampler;
    auto const found = shape_of_rows(sampler, outlook, {.nodes = 28, .children = 4});
    for (topology const& other : {branching({4, 2, 1, 1}), branching({2, 2, 2, 1}), chain(4), branching({3, 2, 1, 1})})
        EXPECT_GE(value_of(found, sampler, outlook), value_of(other, sampler, outlook));
    EXPECT_GT(value_of(found, sampler, outlook), 1.25 * value_of(chain(4), sampler, outlook));
    // More nodes are never worth less, and none is added that does not pay.
    draft::chances_by_row const chances(sampler, outlook, 4);
    draft::shape_growth growth;
    double before = 0;
    for (node_id n = 0; n <= 40; ++n) {
        growth.grow(chances, {.nodes = n});
        EXPECT_GE(growth.tokens(), before);
        before = growth.tokens();
        growth.grow(chances, {.nodes = n, .least = 0.05});
        EXPECT_GE(growth.tokens(), 0.05 * (growth.size() - 1));
    }
    // Draws without replacement take nothing from those before them: the heap's tree is the best.
    auto const in_turn = shape_of_rows(draft::sequential{}, outlook, {.nodes = 12, .children = 3});
    EXPECT_GE(in_turn.child_count(0), 2);
    EXPECT_GE(in_turn.max_depth(), 3);
}

/// Low confidence in a depth ends the tree there.
TEST(shape_of_rows, ends_where_little_is_expected) {
    auto const rows = falling_rows(6, 4, 3);
    auto outlook = outlook_of(rows);
    shape_budget const budget{.nodes = 40, .children = 2, .least = 0.02};
    auto const deep = shape_of_rows(draft::iid{}, outlook, budget);
    EXPECT_GT(deep.max_depth(), 3);
    outlook[2].rates = child_rates{}.scaled_to(0.01);
    EXPECT_EQ(shape_of_rows(draft::iid{}, outlook, budget).max_depth(), 2);
}

TEST(shape_of_rows, refuses_budgets_out_of_their_range) {
    std::vector<double> const row{0.5, 0.5};
    std::vector<depth_outlook> const rows{{row, {}}};
    for (shape_budget const& budget :
         {shape_budget{.nodes = -1}, {.children = 0}, {.least = -0.5}, {.least = std::nan("")}})
        EXPECT_THROW(static_cast<void>(shape_of_rows(draft::iid{}, rows, budget)), invalid_input);
}

TEST(shape_of_rows, corrects_the_chances_by_the_number_of_children) {
    auto const rows = falling_rows(4, 5, 3);
    auto corrected = outlook_of(rows);
    std::vector<double> const for_one{1.5, 0.5};
    std::vector<double> const for_two{0.2, 1.2};
    for (index_t n = 1; n <= 4; ++n) {
        auto const before = chances_of(draft::stratified{}, corrected[0], n);
        depth_outlook other = corrected[0];
        other.corrections = for_two;
        auto const after = chances_of(draft::stratified{}, other, n);
        EXPECT_NEAR(after.any(), std::min(1.0, (n == 1 ? 0.2 : 1.2) * before.any()), 1e-12) << n;
        EXPECT_NEAR(after.of_draw(0) * before.any(), before.of_draw(0) * after.any(), 1e-12) << "in proportion";
    }
    for (depth_outlook& row : corrected) row.corrections = for_one;
    EXPECT_EQ(shape_of_rows(draft::stratified{}, corrected, {.nodes = 3, .children = 3}), chain(3));
    for (depth_outlook& row : corrected) row.corrections = for_two;
    EXPECT_EQ(shape_of_rows(draft::stratified{}, corrected, {.nodes = 2, .children = 3}).child_count(0), 2);
}

TEST(rates_of_row, rise_with_the_certainty_of_the_row) {
    EXPECT_NEAR(draft::rate_of_draw(std::vector<double>{1.0}), 0.9, 1e-12);
    EXPECT_NEAR(draft::rate_of_draw({}), 0.45, 1e-12);
    EXPECT_NEAR(draft::rate_of_draw(std::vector<double>{0.5, 0.5}), 0.675, 1e-12);
    draft::child_rates const rates = draft::rates_of_row(std::vector<double>{0.5, 0.5});
    EXPECT_NEAR(rates.certain, 0.8375, 1e-12);
    EXPECT_EQ(rates.draw, draft::rate_of_draw(std::vector<double>{0.5, 0.5}));
    EXPECT_EQ(rates.other, rates.draw);
}

}  // namespace
}  // namespace shape_of_rows_test
}  // namespace multidraft
