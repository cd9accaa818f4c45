// Trees that adapt within a step: their laws, their bounds, and what their shapes depend on.
#include "multidraft/decode/reach_drafter.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "decode/text_laws.hpp"
#include "multidraft/decode/acceptance_by_row.hpp"
#include "multidraft/decode/autoregressive.hpp"
#include "multidraft/decode/speculative.hpp"
#include "multidraft/draft/child_shares.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/verify/naive.hpp"
#include "multidraft/verify/nested_ranked_block.hpp"
#include "multidraft/verify/ranked.hpp"
#include "multidraft/verify/ranked_block.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "support/table_model.hpp"

namespace multidraft {
namespace {

using testing::distance;
using testing::law_of_loop;
using testing::random_conditional;
using testing::table_model;
using testing::true_law;

std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

// --- Shares ----------------------------------------------------------------------------------------------------------

TEST(child_shares, are_those_of_the_sampler) {
    std::vector<std::vector<double>> const rows{{0.9, 0.05, 0.03, 0.02},  {0.4, 0.3, 0.2, 0.1},
                                                {0.25, 0.25, 0.25, 0.25}, {1, 0, 0, 0},
                                                {0.5, 0.5, 0, 0},         {0.6, 0.39, 0.01, 0}};
    host_group const g;
    for (auto const& row : rows)
        for (index_t n = 1; n <= 5; ++n) {
            probabilities<double> const q(row.data(), 4);
            auto sums = g.sum_chunks(4, weight_of{q});
            std::vector<token_id> out(at(n), none);
            addressed_source source;
            drawn_children const drawn = draft::stratified{}(g, q, sums, source, {}, span<token_id>(out));
            auto const shares = draft::shares_of(draft::stratified{}, row, n);
            if (drawn.count == n) {
                EXPECT_EQ(shares.certain, drawn.certain) << n;
            }
            EXPECT_EQ(shares.certain + shares.draws, n);
            double sum = shares.left;
            for (index_t k = 0; k < shares.certain; ++k) sum += row[at(k)];
            EXPECT_NEAR(sum, 1, 1e-12);
            auto const iid = draft::shares_of(draft::iid{}, row, n);
            EXPECT_EQ(iid.draws, n);
            EXPECT_NEAR(iid.of_draw(), 1.0 / n, 1e-15);
        }
}

/// By hand: certain children by their probabilities, draws by the rate that none of them is accepted.
TEST(child_chances, follow_from_shares_and_rates) {
    std::vector<double> const row{0.5, 0.3, 0.15, 0.05};
    draft::child_rates const rates{.certain = 1, .draw = 0.6, .other = 0.4};
    auto const of = [&](index_t n) { return draft::chances_of(draft::stratified{}, row, n, rates); };
    EXPECT_NEAR(of(1).any(), 0.6, 1e-15) << "one draw";
    EXPECT_NEAR(of(2).any(), 0.5 + 0.5 * 0.4, 1e-15) << "one certain child, one draw beside it";
    EXPECT_NEAR(of(2).of_draw(), 0.5 * 0.4, 1e-15);
    EXPECT_NEAR(of(3).any(), 0.8 + 0.2 * 0.4, 1e-15);
    double const three = 1 - std::pow(0.4, std::pow(3, 0.45));
    EXPECT_NEAR(draft::chances_of(draft::iid{}, row, 3, rates).any(), three, 1e-15);
    EXPECT_NEAR(draft::chances_of(draft::iid{}, row, 3, rates).of_draw(), three / 3, 1e-15);
    // No sum of chances exceeds 1, whatever the rates.
    for (double const certain : {0.0, 0.5, 1.0, 1.5, 3.0})
        for (double const draw : {0.0, 0.5, 1.0})
            for (index_t n = 1; n <= 6; ++n) {
                auto const chances = draft::chances_of(draft::stratified{}, row, n, {certain, draw, draw});
                EXPECT_LE(chances.any(), 1 + 1e-12);
                EXPECT_GE(chances.of_draw(), 0);
            }
}

TEST(best_children, have_the_largest_gain) {
    std::vector<double> const row{0.5, 0.3, 0.15, 0.05};
    auto const best = [&](double reach, index_t most = 4) {
        return draft::best_children(draft::stratified{}, row, {.certain = 1, .draw = 0.6, .other = 0.4}, reach, most);
    };
    EXPECT_EQ(best(1), 0) << "0.6 - 1 < 0";
    EXPECT_EQ(best(2), 1) << "1.2 - 1 > 0, 1.4 - 2 < 0";
    EXPECT_EQ(best(10), 3) << "5, 5, 5.8, 5.7";
    EXPECT_EQ(best(13), 4) << "6.8, 7.1, 8.44, 8.61";
    EXPECT_EQ(best(13, 2), 2) << "no more than allowed";
    for (double reach = 0; reach < 40; reach += 0.25) EXPECT_LE(best(reach), best(reach + 0.25)) << reach;
}

/// From outcomes that have known rates, those are learnt.
TEST(acceptance_by_row, learns_the_rates_of_each_class) {
    acceptance_by_row history(0.6);
    EXPECT_EQ(acceptance_by_row::class_of(0.05), 0U);
    EXPECT_LT(acceptance_by_row::class_of(0.4), acceptance_by_row::class_of(0.6));
    EXPECT_NEAR(history.rates(3).certain, 1, 1e-15);
    EXPECT_NEAR(history.rates(3).draw, 0.6, 1e-15);
    EXPECT_NEAR(history.of_token(0), 1, 1e-15);
    std::vector<double> const row{0.5, 0.3, 0.15, 0.05};
    draft::child_rates const truth{.certain = 0.8, .draw = 0.4, .other = 0.25};
    std::size_t const a = acceptance_by_row::class_of(0.5);
    std::uint64_t state = 1;
    auto const uniform = [&] {
        state = state * 6364136223846793005U + 1442695040888963407U;
        return static_cast<double>(state >> 11) * 0x1p-53;
    };
    for (int step = 0; step < 20000; ++step) {
        for (index_t const n : {1, 3, 5}) {
            auto const real = draft::chances_of(draft::stratified{}, row, n, truth);
            double u = uniform();
            index_t accepted = none;
            for (index_t k = 0; k < n && accepted < 0; ++k) {
                double const chance = k < real.shares.certain ? real.factor * row[at(k)] : real.of_draw();
                if (u < chance) accepted = k;
                u -= chance;
            }
            history.count(a, draft::chances_of(draft::stratified{}, row, n, history.rates(a)),
                          std::vector<std::size_t>(at(real.shares.draws), 1), accepted);
        }
        history.fade();
    }
    EXPECT_NEAR(history.rates(a).certain, truth.certain, 0.1);
    EXPECT_NEAR(history.rates(a).draw, truth.draw, 0.1);
    EXPECT_NEAR(history.rates(a).other, truth.other, 0.1);
    EXPECT_NEAR(history.of_token(1), 1, 0.15);
    EXPECT_NEAR(history.rates(a + 1).draw, 0.6, 1e-15) << "the other classes are as before";
    // Tokens of one kind are accepted, those of the other are not.
    auto const chances = draft::chances_of(draft::iid{}, row, 2, history.rates(0));
    for (int step = 0; step < 2000; ++step) history.count(0, chances, std::vector<std::size_t>{0, 2}, step % 2 - 1);
    EXPECT_GT(history.of_token(0), 1.1);
    EXPECT_LT(history.of_token(2), 0.1);
}

// --- Exact laws ------------------------------------------------------------------------------------------------------

template <class Sampler, class Rule, class Verifier>
void expect_exact(reach_options const& options, std::int32_t vocabulary, double temperature = 1) {
    constexpr int tokens = 3;
    using model = table_model<double>;
    auto const p = random_conditional(vocabulary, 11);
    model target(vocabulary, p);
    model draft(vocabulary, random_conditional(vocabulary, 12));
    std::vector<token_id> const prompt{1, 0};
    generation_options text;
    text.max_tokens = tokens;
    text.sampling.temperature = static_cast<float>(temperature);
    std::map<std::int64_t, int> sizes;
    // A drafter learns from the texts before: a new one for each branch, as if it were the first.
    struct fresh_loop {
        model& target;
        model& draft;
        reach_options options;
        generation operator()(std::vector<token_id> const& prompt, generation_options const& text,
                              testing::enumerating_source& source) const {
            return make_speculative<Verifier>(target, reach_drafter<model, Sampler, Rule>(draft, options))(prompt, text,
                                                                                                           source);
        }
    } const loop{target, draft, options};
    auto const result = law_of_loop(loop, prompt, text, [&](generation const& g) {
        ++sizes[g.metrics.drafted];
        ASSERT_EQ(target.length(), static_cast<std::int32_t>(prompt.size()) + tokens - 1);
        ASSERT_LE(draft.length(), target.length());
    });
    EXPECT_NEAR(result.total, 1, 1e-12);
    EXPECT_LT(distance(result.law, true_law(p, vocabulary, prompt, tokens, text.sampling)), 1e-12);
    EXPECT_GE(sizes.size(), 2U) << "trees differ";
    EXPECT_LT(result.calls, tokens) << "some tokens are accepted";
}

TEST(reach_drafter, is_exact) {
    reach_options const pairs{.nodes = 6, .depth = 2, .children = 2, .least = 0.2};
    expect_exact<draft::iid, by_threshold, verify::ranked_block<law::iid>>(pairs, 2);
    expect_exact<draft::stratified, by_threshold, verify::ranked_block<law::stratified>>(pairs, 3);
    expect_exact<draft::stratified, by_threshold, verify::ranked<law::stratified>>(pairs, 3, 0.7);
    expect_exact<draft::iid, by_threshold, verify::recursive_rejection<law::iid>>(pairs, 3);
    reach_options const budget{.nodes = 3, .depth = 2, .children = 2, .least = 0.1, .mean_nodes = 2};
    expect_exact<draft::iid, by_level_budget, verify::ranked_block<law::iid>>(budget, 2);
    expect_exact<draft::stratified, by_level_budget, verify::ranked_block<law::stratified>>(budget, 3, 0.8);
    expect_exact<draft::iid, by_level_budget, verify::recursive_rejection<law::iid>>(budget, 3);
    static_assert(by_threshold::shape_depends_on <=
                  verify::shape_may_depend_on<verify::nested_ranked_block<law::stratified>>);
    static_assert(by_level_budget::shape_depends_on >
                  verify::shape_may_depend_on<verify::nested_ranked_block<law::stratified>>);
}

/// At temperature 0 the greedy text, whatever the rule and the verifier.
TEST(reach_drafter, writes_the_greedy_text_at_temperature_0) {
    constexpr std::int32_t size = 40;
    using model = table_model<float>;
    model target(size, random_conditional(size, 1, 2, 0, 2.0));
    model draft(size, random_conditional(size, 1, 2, 0, 1.0));  // the same argmax, less sure
    generation_options text;
    text.max_tokens = 100;
    text.sampling.temperature = 0;
    text.draft_sampling = sampling_params{.temperature = 0.4F};
    std::vector<token_id> const prompt{3, 1, 4};
    auto const greedy = autoregressive(target, prompt, text).tokens;
    for (std::int32_t const nodes : {1, 3, 12}) {
        reach_options const options{.nodes = nodes, .depth = 4};
        using nested = verify::nested_ranked_block<law::stratified>;
        using block = verify::ranked_block<law::stratified>;
        auto const by_nested = make_speculative<nested>(
            target, reach_drafter<model, draft::stratified, by_threshold>(draft, options))(prompt, text);
        EXPECT_EQ(by_nested.tokens, greedy);
        EXPECT_GT(by_nested.metrics.accepted, 0);
        auto const by_block = make_speculative<block>(
            target, reach_drafter<model, draft::stratified, by_level_budget>(draft, options))(prompt, text);
        EXPECT_EQ(by_block.tokens, greedy);
        EXPECT_GT(by_block.metrics.accepted, 0);
    }
}

// --- Bounds and dependence of shapes ---------------------------------------------------------------------------------

/// Grows trees over models of all kinds and calls `look(tree)` for each.
template <class Sampler, class Rule, class Look>
void over_trees(reach_options const& options, Look look, int seeds = 20) {
    constexpr std::int32_t size = 30;
    using model = table_model<float>;
    for (int seed = 0; seed < seeds; ++seed) {
        auto const s = static_cast<std::uint64_t>(seed);
        model draft(size, random_conditional(size, s, 2, seed % 3, 0.5 + 0.3 * seed));
        reach_drafter<model, Sampler, Rule> drafter(draft, options);
        host_group const g;
        generation_metrics m;
        std::vector<token_id> text{1, 2, static_cast<token_id>(seed % size)};
        for (int step = 0; step < 5; ++step) {
            addressed_source source{addressed_uniforms(s, static_cast<std::uint32_t>(step))};
            draft.keep(0, {});
            drafter.grow(g, text, options.depth, sampling_params{}, source, m);
            look(drafter, s);
        }
    }
}

template <class Sampler, class Rule>
void expect_bounds() {
    for (reach_options const& options :
         {reach_options{}, reach_options{.nodes = 1, .depth = 5}, reach_options{.nodes = 7, .depth = 3, .children = 8},
          reach_options{.nodes = 30, .depth = 4, .children = 6, .acceptance = 1},
          reach_options{.nodes = 64, .depth = 8, .children = 64, .acceptance = 1, .learns = false}}) {
        node_id largest = 0;
        over_trees<Sampler, Rule>(options, [&](auto const& drafter, std::uint64_t) {
            auto const tree = drafter.tree().tree;
            ASSERT_TRUE(tree.is_tree());
            largest = std::max(largest, tree.size() - 1);
            ASSERT_LE(tree.size() - 1, options.nodes);
            for (node_id v = 0; v < tree.size(); ++v) {
                ASSERT_LE(tree.children(v).count, options.children);
                ASSERT_LE(tree.depth(v), options.depth);
            }
        });
        EXPECT_GE(largest, std::min(options.nodes, 2));
    }
}

TEST(reach_drafter, keeps_its_bounds_whatever_is_drawn) {
    expect_bounds<draft::stratified, by_threshold>();
    expect_bounds<draft::iid, by_threshold>();
    expect_bounds<draft::stratified, by_level_budget>();
    expect_bounds<draft::iid, by_level_budget>();
}

/// The number of children of a node, by its path: ranks and tokens from the root. By threshold it is a function of
/// that; by the level's budget it is not.
template <class Rule>
std::pair<int, int> same_and_other_numbers() {
    using model = table_model<float>;
    std::pair<int, int> result{0, 0};
    for (std::int32_t const size : {4, 8})
        for (double const sharpness : {0.3, 0.6, 1.0, 1.5}) {
            std::map<std::vector<std::int32_t>, index_t> numbers;
            model draft(size, random_conditional(size, 5, 2, 0, sharpness));
            reach_drafter<model, draft::stratified, Rule> drafter(
                draft, {.nodes = 18, .depth = 3, .children = 4, .learns = false});
            generation_metrics m;
            std::vector<token_id> const text{1, 2};
            for (std::uint64_t seed = 0; seed < 100; ++seed) {
                addressed_source source{addressed_uniforms(seed)};
                draft.keep(0, {});
                drafter.grow(host_group{}, text, 3, sampling_params{}, source, m);
                auto const tree = drafter.tree().tree;
                for (node_id v = 0; v < tree.size(); ++v) {
                    std::vector<std::int32_t> path;
                    for (node_id u = v; u > 0; u = tree.parent(u)) {
                        path.push_back(tree.tokens[at(u)]);
                        path.push_back(u - tree.children(tree.parent(u)).first);
                    }
                    auto const [found, is_new] = numbers.emplace(path, tree.children(v).count);
                    if (is_new) continue;
                    (found->second == tree.children(v).count ? result.first : result.second) += 1;
                }
            }
        }
    return result;
}

TEST(reach_drafter, looks_at_a_nodes_own_context_alone_by_threshold) {
    auto const own = same_and_other_numbers<by_threshold>();
    EXPECT_GT(own.first, 1000);
    EXPECT_EQ(own.second, 0);
    auto const level = same_and_other_numbers<by_level_budget>();
    EXPECT_GT(level.second, 0) << "the other rule shows that looking farther would be seen";
}

TEST(reach_drafter, spends_the_budget_of_a_level) {
    reach_options const options{.nodes = 12, .depth = 3, .children = 4};
    double sum = 0;
    int trees = 0;
    over_trees<draft::iid, by_level_budget>(options, [&](auto const& drafter, std::uint64_t) {
        sum += drafter.size() - 1;
        ++trees;
    });
    EXPECT_GT(sum / trees, 11) << "ties are shared out in the order of the nodes";
}

/// Threshold and acceptance follow the outcomes.
TEST(reach_drafter, comes_to_the_mean_size_asked_for) {
    constexpr std::int32_t size = 30;
    using model = table_model<float>;
    model target(size, random_conditional(size, 1, 2, 0, 1.5));
    model draft(size, random_conditional(size, 1, 1, 0, 1.5));
    std::vector<token_id> const prompt{3, 1, 4};
    for (double const mean : {3.0, 6.0}) {
        generation_options text;
        text.max_tokens = 600;
        reach_options const options{.nodes = 40, .depth = 4, .children = 4, .mean_nodes = mean};
        auto loop = make_speculative<verify::nested_ranked_block<law::stratified>>(
            target, reach_drafter<model, draft::stratified, by_threshold>(draft, options));
        generation_metrics second;
        text.seed = 1;
        loop(prompt, text);
        text.seed = 2;
        second = loop(prompt, text).metrics;
        EXPECT_NEAR(static_cast<double>(second.drafted) / static_cast<double>(second.target_calls), mean, 0.15 * mean);
    }
}

TEST(reach_drafter, names_bad_input) {
    table_model<float> draft(5, random_conditional(5, 1));
    auto const has = [&](reach_options const& options, char const* part) {
        try {
            reach_drafter<table_model<float>, draft::iid, by_threshold> drafter(draft, options);
            ADD_FAILURE() << "nothing was thrown";
        } catch (invalid_input const& e) {
            EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
        }
    };
    has({.nodes = 0}, "nodes = 0");
    has({.depth = 0}, "depth = 0");
    has({.children = 65}, "children = 65");
    has({.least = 1.5}, "least = 1.5");
    has({.acceptance = 0}, "acceptance = 0");
    has({.nodes = 8, .mean_nodes = 9}, "mean_nodes = 9");
    reach_drafter<table_model<float>, draft::iid, by_threshold> drafter(draft);
    EXPECT_THROW(drafter.check(6), invalid_input);
}

}  // namespace
}  // namespace multidraft
