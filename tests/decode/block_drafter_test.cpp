// Block drafters, proved: the exact law of whole texts, with each verifier, each kind of rows and each kind of shape.
#include "multidraft/decode/block_drafter.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "decode/text_laws.hpp"
#include "multidraft/decode/autoregressive.hpp"
#include "multidraft/decode/speculative.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/draft/top_n.hpp"
#include "multidraft/tree/shapes.hpp"
#include "multidraft/verify/naive.hpp"
#include "multidraft/verify/nested_ranked_block.hpp"
#include "multidraft/verify/ranked_block.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/traversal.hpp"
#include "support/table_block.hpp"
#include "support/table_model.hpp"

namespace multidraft {
namespace block_drafter_test {
namespace {

using testing::candidate_block;
using testing::conditional_block;
using testing::distance;
using testing::law_of_loop;
using testing::random_conditional;
using testing::table_block;
using testing::table_model;
using testing::true_law;

constexpr std::int32_t vocabulary = 3;
std::vector<token_id> const prompt{1, 2, 1};
sampling_params const samplings[] = {{}, {.temperature = 0.7F}, {.temperature = 0.0F}, {.top_k = 2}};

/// The law of three tokens of a loop is the target's, and the model is called once a step at most.
template <class Verifier, class Drafter, class Model>
double expect_exact(Model& model, Drafter drafter, sampling_params const& w, int tokens = 3) {
    auto const p = random_conditional(vocabulary, 11);
    table_model<double> target(vocabulary, p);
    generation_options options;
    options.max_tokens = tokens;
    options.sampling = w;
    auto loop = make_speculative<Verifier>(target, std::move(drafter));
    model.calls = 0;
    std::int64_t steps = 0;
    auto const found =
        law_of_loop(loop, prompt, options, [&](generation const& g) { steps += g.metrics.target_calls; });
    EXPECT_NEAR(found.total, 1.0, 1e-12);
    EXPECT_LT(distance(found.law, true_law(p, vocabulary, prompt, tokens, w)), 1e-12);
    EXPECT_LE(model.calls, steps);
    return found.accepted;
}

template <class Model>
void expect_every_verifier_exact(int sparsity = 0) {
    Model model(vocabulary, 12, 3, sparsity);
    for (sampling_params const& w : samplings)
        for (topology const& shape : {branching({2, 1}), branching({1, 2})}) {
            expect_exact<verify::recursive_rejection<law::sequential>>(
                model, block_drafter<Model, draft::sequential>(model, shape), w);
            expect_exact<verify::recursive_rejection<law::iid>>(model, block_drafter<Model, draft::iid>(model, shape),
                                                                w);
            expect_exact<verify::traversal<law::sequential>>(model,
                                                             block_drafter<Model, draft::sequential>(model, shape), w);
            expect_exact<verify::ranked_block<law::stratified>>(
                model, block_drafter<Model, draft::stratified>(model, shape), w);
            expect_exact<verify::naive<law::deterministic>>(model, block_drafter<Model, draft::top_n>(model, shape), w);
        }
}

TEST(block_drafter, is_exact_with_rows_of_depths) {
    expect_every_verifier_exact<table_block>();
    expect_every_verifier_exact<table_block>(3);
}
TEST(block_drafter, is_exact_with_a_term_of_the_parent) { expect_every_verifier_exact<conditional_block>(); }
TEST(block_drafter, is_exact_with_candidates) { expect_every_verifier_exact<candidate_block>(); }

TEST(block_drafter, is_exact_with_shapes_of_all_rows_or_of_a_nodes_own) {
    for (sampling_params const& w : samplings) {
        table_block block(vocabulary, 12);
        conditional_block conditional(vocabulary, 12);
        best_first_shape const best({.nodes = 4, .children = 3});
        expect_exact<verify::recursive_rejection<law::sequential>>(
            block, block_drafter<table_block, draft::sequential, best_first_shape>(block, best), w);
        expect_exact<verify::traversal<law::sequential>>(
            block, block_drafter<table_block, draft::sequential, best_first_shape>(block, best), w);
        expect_exact<verify::ranked_block<law::stratified>>(
            conditional, block_drafter<conditional_block, draft::stratified, best_first_shape>(conditional, best), w);
        reach_shape const reach(0.1, 2, 2);
        expect_exact<verify::ranked_block<law::stratified>>(
            block, block_drafter<table_block, draft::stratified, reach_shape>(block, reach), w);
        expect_exact<verify::ranked_block<law::stratified>>(
            conditional, block_drafter<conditional_block, draft::stratified, reach_shape>(conditional, reach), w);
        expect_exact<verify::recursive_rejection<law::iid>>(
            conditional, block_drafter<conditional_block, draft::iid, reach_shape>(conditional, reach), w);
    }
}

/// Expects nothing below the second depth.
struct confident_block : table_block {
    static constexpr block_traits traits{.confidence = true};
    using table_block::table_block;
    [[nodiscard]] double confidence(std::int32_t depth) const { return depth < 2 ? 0.8 : 0.001; }
};
static_assert(estimates_acceptance<confident_block> && !estimates_acceptance_after<confident_block>);

/// Expects nothing after odd tokens.
struct doubtful_block : conditional_block {
    static constexpr block_traits traits{.parent_terms = true, .confidence_after_token = true};
    using conditional_block::conditional_block;
    [[nodiscard]] double confidence(std::int32_t, token_id token) const { return token % 2 == 0 ? 0.8 : 0.001; }
};
static_assert(!estimates_acceptance<doubtful_block> && estimates_acceptance_after<doubtful_block>);

TEST(block_drafter, is_exact_with_confidence_in_rows_and_ends_trees_by_it) {
    for (sampling_params const& w : samplings) {
        confident_block confident(vocabulary, 12);
        doubtful_block doubtful(vocabulary, 12);
        best_first_shape const best({.nodes = 4, .children = 2, .least = 0.02});
        reach_shape const reach(0.05, 2, 2);
        expect_exact<verify::traversal<law::sequential>>(
            confident, block_drafter<confident_block, draft::sequential, best_first_shape>(confident, best), w);
        expect_exact<verify::ranked_block<law::stratified>>(
            confident, block_drafter<confident_block, draft::stratified, reach_shape>(confident, reach), w);
        expect_exact<verify::ranked_block<law::iid>>(
            doubtful, block_drafter<doubtful_block, draft::iid, reach_shape>(doubtful, reach), w);
    }
    table_model<double> target(vocabulary, random_conditional(vocabulary, 11));
    generation_options options;
    options.max_tokens = 40;
    std::int32_t deepest = 0;
    std::int64_t after_even = 0;
    options.observer = [&](step_view const& step) {
        deepest = std::max(deepest, step.tree.depth(step.tree.size() - 1));
        for (node_id v = 1; v < step.tree.size(); ++v) {
            token_id const above = step.tree.tokens[step.tree.parents[v]];
            after_even += above % 2 == 0 ? 1 : 0;
        }
    };
    confident_block confident(vocabulary, 12, 6);
    auto best = make_speculative<verify::nested_ranked_block<law::stratified>>(
        target, block_drafter<confident_block, draft::stratified, best_first_shape>(
                    confident, best_first_shape({.nodes = 20, .children = 2, .least = 0.02})));
    static_cast<void>(best(prompt, options));
    EXPECT_EQ(deepest, 2);
    after_even = 0;
    doubtful_block doubtful(vocabulary, 12, 6);
    auto by_reach = make_speculative<verify::nested_ranked_block<law::iid>>(
        target, block_drafter<doubtful_block, draft::iid, reach_shape>(doubtful, reach_shape(0.02, 2, 6)));
    auto const found = by_reach(prompt, options);
    EXPECT_EQ(after_even, found.metrics.drafted) << "nothing is drawn after a token without confidence";
    EXPECT_GT(after_even, 20);
}

TEST(block_drafter, is_exact_with_one_list_for_each_depth) {
    using of_iid = law::shared_lists<law::iid>;
    using of_sequential = law::shared_lists<law::sequential>;
    for (sampling_params const& w : samplings) {
        table_block block(vocabulary, 12);
        expect_exact<verify::ranked_block<law::iid>>(
            block, block_drafter<table_block, draft::iid, fixed_shape, of_iid>(block, branching({2, 1})), w);
        expect_exact<verify::recursive_rejection<law::sequential>>(
            block, block_drafter<table_block, draft::sequential, fixed_shape, of_sequential>(block, branching({2, 2})),
            w);
    }
}

TEST(block_drafter, writes_at_temperature_0_what_the_target_writes) {
    auto const p = random_conditional(vocabulary, 11);
    table_model<double> target(vocabulary, p);
    conditional_block model(vocabulary, 12);
    generation_options options;
    options.max_tokens = 40;
    options.sampling.temperature = 0;
    using drafter = block_drafter<conditional_block, draft::stratified, best_first_shape>;
    auto loop = make_speculative<verify::nested_ranked_block<law::stratified>>(
        target, drafter(model, best_first_shape({.nodes = 8, .children = 3})));
    auto const found = loop(prompt, options);
    EXPECT_EQ(found.tokens, autoregressive(target, prompt, options).tokens);
    EXPECT_GT(found.metrics.accepted, 0);
}

/// What is drawn from, and given to the verifier, is the row of the depth with the term of the node's own token.
TEST(block_drafter, has_the_row_of_the_depth_and_the_token) {
    auto const p = random_conditional(vocabulary, 11);
    table_model<double> target(vocabulary, p);
    conditional_block model(vocabulary, 12);
    candidate_block few(vocabulary, 12);
    generation_options options;
    options.max_tokens = 30;
    std::int64_t seen = 0;
    std::int32_t left_out = 0;
    options.observer = [&](step_view const& step) {
        for (node_id v = 1; v < step.tree.size(); ++v) {
            node_id const up = step.tree.parents[v];
            auto row = model.row_of(step.text, step.tree.depth(up));
            for (token_id i = 0; i < vocabulary; ++i)
                row[static_cast<std::size_t>(i)] += model.term(step.tree.depth(up), step.tree.tokens[up], i);
            if (left_out == 1)
                row[static_cast<std::size_t>(std::min_element(row.begin(), row.end()) - row.begin())] = -HUGE_VAL;
            double mass = 0;
            for (double const x : row) mass += std::exp(x);
            EXPECT_NEAR(step.q[static_cast<std::size_t>(v)],
                        std::exp(row[static_cast<std::size_t>(step.tree.tokens[v])]) / mass, 1e-12);
            ++seen;
        }
    };
    auto loop = make_speculative<verify::recursive_rejection<law::sequential>>(
        target, block_drafter<conditional_block, draft::sequential>(model, branching({2, 2, 1})));
    static_cast<void>(loop(prompt, options));
    left_out = 1;
    auto sparse = make_speculative<verify::recursive_rejection<law::sequential>>(
        target, block_drafter<candidate_block, draft::sequential>(few, branching({2, 2, 1})));
    static_cast<void>(sparse(prompt, options));
    EXPECT_GT(seen, 150);
}

TEST(block_drafter, of_another_vocabulary_is_refused) {
    table_model<double> target(vocabulary, random_conditional(vocabulary, 11));
    table_block model(vocabulary + 1, 12);
    using drafter = block_drafter<table_block, draft::sequential>;
    EXPECT_THROW(static_cast<void>(
                     make_speculative<verify::recursive_rejection<law::sequential>>(target, drafter(model, chain(2)))),
                 invalid_input);
    EXPECT_THROW(best_first_shape({.nodes = -1}), invalid_input);
    EXPECT_THROW(reach_shape(0, 2, 2), invalid_input);
}

}  // namespace
}  // namespace block_drafter_test
}  // namespace multidraft
