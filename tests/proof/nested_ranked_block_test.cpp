// Nested ranked block verification from histograms: its drawing code against the target's law.
#include "multidraft/verify/nested_ranked_block.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <map>
#include <type_traits>
#include <vector>

#include "bugs/shape_by_drawn_row.hpp"
#include "bugs/shape_by_siblings.hpp"
#include "multidraft/analysis/configuration_search.hpp"
#include "multidraft/control/budget_controller.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/shape_chances.hpp"
#include "multidraft/draft/shape_of_rows.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/testing/engine_samplers.hpp"
#include "multidraft/tree/shapes.hpp"
#include "support/chi_squared.hpp"
#include "support/proved_methods.hpp"
#include "support/simulated_step.hpp"
#include "support/tree_cases.hpp"

namespace {

namespace bugs = multidraft::bugs;
namespace draft = multidraft::draft;
namespace law = multidraft::law;
namespace verify = multidraft::verify;
using multidraft::addressed_source;
using multidraft::addressed_uniforms;
using multidraft::testing::basic_model_pair;
using multidraft::testing::chi_squared;
using multidraft::testing::engine_stratified;
using multidraft::testing::given_stratified;
using multidraft::testing::kind;
using multidraft::testing::law_of_target;
using multidraft::testing::print;
using multidraft::testing::random_models;
using multidraft::testing::shape;
using multidraft::testing::shape_rule;
using multidraft::testing::silent_group;
using multidraft::testing::simulate;
using multidraft::testing::simulation;
using multidraft::testing::text;
using multidraft::testing::tree_case;

template <class Law>
using nested = verify::nested_ranked_block<Law>;

/// Cases with all features: duplicates with subtrees, certain tokens, refused candidates, three levels.
template <class Verifier, class Group = multidraft::host_group, class Real = double, class Sampler>
simulation over_trees(Sampler sampler, std::vector<kind> const& kinds, int runs) {
    simulation all;
    std::vector<tree_case> const cases{{{2, 1}, 3}, {{2, 2}, 3}, {{3, 2}, 4}, {{2, 2, 2}, 2}, {{1, 2, 1}, 3}};
    for (tree_case const& t : cases) {
        for (kind const k : kinds) {
            auto models = random_models(k, t.vocabulary, static_cast<int>(t.children.size()), 70);
            poison_unreachable(models.target);
            auto const here = [&] {
                if constexpr (std::is_same_v<Real, float>)
                    return simulate<Verifier, Group>(sampler, t.children, in_floats(models), runs, 11);
                else
                    return simulate<Verifier, Group>(sampler, t.children, models, runs, 11);
            }();
            EXPECT_LT(here.fit.statistic, 1e9)
                << print(t.children) << ", " << name_of(k) << ": a token of no mass was emitted";
            all.fit += here.fit;
        }
    }
    return all;
}

std::vector<kind> const usual{kind::plain, kind::no_mass, kind::narrow_draft, kind::one_hot_target};

void expect_fit(char const* name, simulation const& found) {
    std::printf("    %s: p = %.3g\n", name, found.fit.p_value());
    EXPECT_GE(found.fit.p_value(), multidraft::testing::failure_level) << name;
}

TEST(nested_ranked_block, emits_the_law_of_the_target_whatever_the_rows) {
    constexpr int runs = 1500;
    std::vector<kind> const all(std::begin(multidraft::testing::all_kinds), std::end(multidraft::testing::all_kinds));
    expect_fit("iid", over_trees<nested<law::iid>>(draft::iid{}, all, runs));
    expect_fit("iid, floats", over_trees<nested<law::iid>, multidraft::host_group, float>(draft::iid{}, all, runs));
    expect_fit("stratified", over_trees<nested<law::stratified>>(draft::stratified{}, all, runs));
    for (int const draws : {0, 1, 2}) {
        std::printf("    all certain but %d:\n", draws);
        engine_stratified<law::stratified> const sampler{draws};
        expect_fit("stratified", over_trees<nested<law::stratified>>(sampler, all, runs));
        expect_fit("floats", over_trees<nested<law::stratified>, multidraft::host_group, float>(sampler, all, runs));
        expect_fit("padded", over_trees<nested<law::stratified>, silent_group>(sampler, all, runs));
    }
    expect_fit("given tokens alone", over_trees<nested<law::stratified>>(given_stratified{0}, all, runs));
    expect_fit("and one draw", over_trees<nested<law::stratified>>(given_stratified{1}, all, runs));
}

/// Shapes by a node's own context are lossless; those by siblings are not, which is detected: 400,000 trees.
TEST(nested_ranked_block, may_look_at_a_nodes_own_context_and_not_at_siblings) {
    shape_rule const own{"own", [](multidraft::testing::undrawn_node const& v) {
                             auto const path = v.path();
                             multidraft::index_t sum = 0;
                             for (auto const x : path) sum += x;
                             return v.node == 0 ? 2 : (2 * sum + 1 + static_cast<multidraft::index_t>(path.size())) % 3;
                         }};
    chi_squared right, wrong;
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
        auto const models = random_models(kind::plain, 4, 3, seed);
        right += simulate<nested<law::iid>>(draft::iid{}, {2, 2, 1}, models, 100000, seed, own).fit;
        wrong +=
            simulate<nested<law::iid>>(draft::iid{}, {2, 2, 1}, models, 100000, seed, bugs::shape_by_siblings()).fit;
    }
    std::printf("    own context: p = %.3g; siblings: p = %.2g\n", right.p_value(), wrong.p_value());
    EXPECT_GE(right.p_value(), multidraft::testing::failure_level);
    EXPECT_LT(wrong.p_value(), multidraft::testing::failure_level);
}

/// A shape that is chosen from all rows before the first draw is lossless: 100,000 trees. Where one of the rows belongs
/// to a token that was drawn it is not: on a grid of quantiles the deviation stays, however fine the grid.
TEST(nested_ranked_block, may_look_at_all_rows_and_at_no_drawn_token) {
    chi_squared right;
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
        auto const models = random_models(kind::plain, 4, 2, seed);
        right +=
            simulate<nested<law::iid>>(draft::iid{}, {2, 2}, models, 25000, seed, bugs::shape_of_depths(models, false))
                .fit;
    }
    std::printf("    all rows: p = %.3g\n", right.p_value());
    EXPECT_GE(right.p_value(), multidraft::testing::failure_level);
    auto const models = random_models(kind::plain, 2, 2, 4);
    for (int const cells : {6, 12}) {
        auto const found =
            multidraft::testing::law_of_step(draft::iid{}, nested<law::iid>{}, {2, 1}, models,
                                             {.grid = cells, .rule = bugs::shape_of_depths(models, true)});
        double const distance = multidraft::testing::total_variation(found.law, law_of_target(models.target, 3));
        std::printf("    a drawn row: %.2e with %d cells\n", distance, cells);
        EXPECT_GT(distance, 3e-3);
    }
}

/// So is one whose number of nodes is chosen from what all rows promise for each number: 20,000 trees.
TEST(nested_ranked_block, may_look_at_all_rows_for_the_number_of_nodes) {
    chi_squared right;
    std::map<multidraft::node_id, int> chosen;
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
        auto const models = random_models(kind::plain, 4, 2, seed);
        auto const falling = [](std::vector<double> row) {
            std::sort(row.rbegin(), row.rend());
            return row;
        };
        auto const& first = models.draft[0];
        auto const likeliest =
            static_cast<multidraft::token_id>(std::max_element(first.begin(), first.end()) - first.begin());
        std::vector<std::vector<double>> const rows{falling(first),
                                                    falling(models.draft[models.draft.after(0, likeliest)])};
        std::vector<draft::depth_outlook> const outlook{{rows[0], {}}, {rows[1], {}}};
        multidraft::budget_controller choices(
            {multidraft::analysis::call_cost({{1, 1.0}, {7, seed % 2 == 0 ? 1.01 : 1.9}}),
             multidraft::analysis::call_cost({{1, 0.01}}),
             {{}}},
            {.nodes = 6, .credit = 1e9, .learns_times = false});
        std::vector<multidraft::topology> trees(1);
        std::vector<multidraft::tree_offer> offers(1);
        std::vector<double> chances;
        ASSERT_EQ(choices.levels({{}, 2, 1}), 2);
        for (multidraft::node_id const nodes : choices.budgets())
            trees.push_back(draft::shape_of_rows(draft::iid{}, outlook, {.nodes = nodes, .children = 2}));
        for (int const depth : {1, 2}) trees.push_back(multidraft::chain(depth));
        for (std::size_t k = 1; k < trees.size(); ++k)
            offers.push_back({trees[k].size() - 1, 1, draft::shape_chances(draft::iid{}, outlook, trees[k], chances),
                              trees[k].max_depth()});
        multidraft::topology const tree = trees[choices.choose(offers)];
        ++chosen[tree.size()];
        shape_rule const rule{"budget_of_rows", [&](multidraft::testing::undrawn_node const& v) {
                                  return v.depth > 1 || v.node >= tree.size() ? 0 : tree.child_count(v.node);
                              }};
        right += simulate<nested<law::iid>>(draft::iid{}, {2, 2}, models, 5000, seed, rule).fit;
    }
    std::printf("    the number of nodes by all rows: p = %.3g\n", right.p_value());
    EXPECT_GE(right.p_value(), multidraft::testing::failure_level);
    EXPECT_GT(chosen.size(), 1U);
}

/// With one list for each depth it is biased, for both laws, and says so; with lists of their own that the same rows
/// give it is not: 40,000 trees each.
TEST(nested_ranked_block, does_not_take_shared_lists) {
    static_assert(!verify::lists_may_be_shared<nested<law::iid>> &&
                  !verify::lists_may_be_shared<nested<law::stratified>>);
    chi_squared iid, stratified, own;
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
        auto models = random_models(kind::plain, 3, 2, seed);
        std::size_t const below = models.draft.after(0, 0);  // the row of the second level, whatever the token
        for (multidraft::token_id x = 1; x < 3; ++x) models.draft[models.draft.after(0, x)] = models.draft[below];
        iid += simulate<nested<law::iid>>(draft::iid{}, {2, 2}, models, 10000, seed, {}, true).fit;
        stratified += simulate<nested<law::stratified>>(draft::stratified{}, {3, 2}, models, 10000, seed, {}, true).fit;
        own += simulate<nested<law::stratified>>(draft::stratified{}, {3, 2}, models, 10000, seed).fit;
    }
    std::printf("    shared: iid p = %.3g, stratified p = %.3g; own: p = %.2g\n", iid.p_value(), stratified.p_value(),
                own.p_value());
    EXPECT_LT(iid.p_value(), multidraft::testing::failure_level);
    EXPECT_LT(stratified.p_value(), multidraft::testing::failure_level);
    EXPECT_GE(own.p_value(), multidraft::testing::failure_level);
}

/// On a grid of quantiles the deviation of the law is of the order of a cell and decreases with it.
TEST(nested_ranked_block, converges_to_the_law_of_the_target_on_a_grid) {
    double worst = 0;
    for (std::uint64_t seed = 1; seed <= 2; ++seed) {
        auto const models = random_models(kind::plain, 2, 2, seed);
        shape const children{2, 1};
        double distance[2] = {};
        for (int k = 0; k < 2; ++k) {
            auto const found = multidraft::testing::law_of_step(draft::iid{}, verify::nested_ranked_block<law::iid>{},
                                                                children, models, {.grid = k == 0 ? 4 : 20});
            distance[k] = multidraft::testing::total_variation(found.law, law_of_target(models.target, 3));
        }
        std::printf("    4 cells: %.2e, 20 cells: %.2e\n", distance[0], distance[1]);
        worst = std::max(worst, distance[1]);
    }
    EXPECT_LT(worst, 1e-3);
}

TEST(nested_ranked_block, comes_close_to_the_limit) {
    double accepted = 0;
    double limit = 0;
    double error = 0;
    for (auto const& c : multidraft::testing::golden_trees()) {
        auto const s = simulate<nested<law::stratified>>(draft::stratified{}, c.children, c.models, 10000, 7);
        accepted += s.mean_accepted;
        limit += c.limit("stratified");
        error += s.error * s.error;
        EXPECT_LE(s.mean_accepted, c.limit("stratified") + 6 * s.error);
        EXPECT_NEAR(s.mean_accepted, c.mean_accepted("nested_ranked_block/stratified"), 0.06);
    }
    std::printf("    %.2f %% of the limit, +- %.2f\n", 100 * accepted / limit, 100 * std::sqrt(error) / limit);
    EXPECT_GT(accepted, 0.97 * limit);
}

}  // namespace

template <>
void multidraft::testing::prove_otherwise<multidraft::methods::nested_ranked_block_iid>() {
    expect_fit("iid", over_trees<nested<law::iid>>(draft::iid{}, usual, 6000));
}
template <>
void multidraft::testing::prove_otherwise<multidraft::methods::nested_ranked_block_stratified>() {
    expect_fit("stratified", over_trees<nested<law::stratified>>(draft::stratified{}, usual, 6000));
}

TEST(nested_ranked_block, emits_the_law_of_the_target) {
    multidraft::testing::prove_otherwise<multidraft::methods::nested_ranked_block_iid>();
    multidraft::testing::prove_otherwise<multidraft::methods::nested_ranked_block_stratified>();
}
