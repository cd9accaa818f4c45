// Proofs of shapes that depend on draws: what each verifier allows, and that a stronger dependence is detected.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "bugs/shape_by_siblings.hpp"
#include "multidraft/draft/child_shares.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/testing/prove_lossless.hpp"
#include "multidraft/verify/ranked_block.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/traversal.hpp"
#include "reference/nested_ranked_block.hpp"

namespace shape_rules_test {
namespace {

namespace bugs = multidraft::bugs;
namespace draft = multidraft::draft;
namespace law = multidraft::law;
namespace reference = multidraft::testing::reference;
namespace verify = multidraft::verify;
using multidraft::index_t;
using multidraft::testing::proof_options;
using multidraft::testing::prove_lossless;
using multidraft::testing::shape_rule;
using multidraft::testing::tree_case;
using multidraft::testing::undrawn_node;

/// By the tokens of the path and the draft's row there.
shape_rule by_own_context() {
    return {"by_own_context", [](undrawn_node const& v) {
                index_t sum = 2;
                for (auto const x : v.path()) sum += x;
                return v.node == 0 ? index_t{2} : (sum + (v.draft[0] > 0.4 ? 1 : 0)) % 3;
            }};
}

/// The number of children that adds the most less `least` for each, by the draft's row at the node and its depth.
template <class Sampler>
shape_rule by_threshold(double least) {
    return {"by_threshold", [least](undrawn_node const& v) {
                std::vector<double> row(v.draft.begin(), v.draft.end());
                std::sort(row.rbegin(), row.rend());
                double reach = 1;
                for (std::int32_t d = 0; d < v.depth; ++d) reach *= 0.6;
                return draft::best_children(Sampler{}, row, {}, reach / least, 4);
            }};
}

/// By all tokens that were drawn before, cousins' children too.
shape_rule by_earlier_draws() {
    return {"by_earlier_draws", [](undrawn_node const& v) {
                index_t sum = v.node;
                for (auto const x : v.tree.tokens) sum += x;
                return v.node == 0 ? index_t{2} : sum % 3;
            }};
}

std::vector<tree_case> trees_of(shape_rule const& rule) {
    return {{{2, 1}, 2, rule}, {{2, 1}, 3, rule}, {{2, 2}, 2, rule},   {{2, 2}, 3, rule},
            {{3, 1}, 2, rule}, {{1, 2}, 3, rule}, {{2, 1, 1}, 2, rule}};
}

template <class Sampler, class Verifier>
void expect_proved(shape_rule const& rule) {
    auto const found = prove_lossless(Sampler{}, Verifier{}, {.trees = trees_of(rule), .seeds = 1});
    EXPECT_TRUE(found.holds()) << found.report();
    EXPECT_GT(found.cases, 60) << found.report();
}

TEST(shape_rules, ranked_block_may_look_at_all_earlier_draws) {
    for (auto const& rule : {by_own_context(), by_earlier_draws(), bugs::shape_by_siblings()}) {
        expect_proved<draft::iid, verify::ranked_block<law::iid>>(rule);
        expect_proved<draft::stratified, verify::ranked_block<law::stratified>>(rule);
    }
    expect_proved<draft::stratified, verify::ranked_block<law::stratified>>(by_threshold<draft::stratified>(0.1));
}

TEST(shape_rules, others_may_as_well) {
    for (auto const& rule : {by_own_context(), by_earlier_draws()}) {
        expect_proved<draft::sequential, verify::recursive_rejection<law::sequential>>(rule);
        expect_proved<draft::sequential, verify::traversal<law::sequential>>(rule);
    }
}

/// Integrated over quantiles, by the verifier's own distribution functions. That a stronger dependence is biased is
/// shown by simulation (nested_ranked_block_test.cpp).
TEST(shape_rules, nested_ranked_block_may_look_at_the_nodes_own_context) {
    for (auto const& rule : {by_own_context(), by_threshold<draft::stratified>(0.1)}) {
        proof_options const options{.trees = trees_of(rule), .seeds = 2, .floats = false};
        auto const iid = prove_lossless(draft::iid{}, reference::nested_ranked_block<law::iid>{}, options);
        EXPECT_TRUE(iid.holds()) << iid.report();
        auto const stratified =
            prove_lossless(draft::stratified{}, reference::nested_ranked_block<law::stratified>{}, options);
        EXPECT_TRUE(stratified.holds()) << stratified.report();
    }
}

}  // namespace
}  // namespace shape_rules_test
