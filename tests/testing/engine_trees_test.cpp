// The public proof of verifiers of whole paths and trees with an engine's samplers; its report on one that it cannot
// enumerate.
#include <gtest/gtest.h>

#include <string>

#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/testing/engine_samplers.hpp"
#include "multidraft/testing/prove_lossless.hpp"
#include "multidraft/verify/block.hpp"
#include "multidraft/verify/nested_ranked_block.hpp"
#include "multidraft/verify/ranked_block.hpp"
#include "multidraft/verify/traversal.hpp"
#include "reference/nested_ranked_block.hpp"
#include "reference/ranked_block.hpp"
#include "support/expect_proved.hpp"

namespace engine_trees_test {
namespace {

namespace draft = multidraft::draft;
namespace law = multidraft::law;
namespace verify = multidraft::verify;
using namespace multidraft::testing;

TEST(proved, block) {
    expect_proved(engine_sequential{}, verify::block<law::sequential>{}, {.trees = chains_to_prove()});
    expect_proved(draft::stratified{}, verify::block<law::stratified>{}, {.trees = chains_to_prove()});
}

TEST(proved, traversal) { expect_proved(engine_sequential{}, verify::traversal<law::sequential>{}); }

TEST(proved, reference_ranked_block) {
    for (int const draws : {0, 1, 2})
        expect_proved(engine_stratified<law::stratified>{draws},
                      multidraft::testing::reference::ranked_block<law::stratified>{}, {.most_branches = 20000});
}

TEST(proved, ranked_block) {
    for (int const draws : {0, 1, 2})
        expect_proved(engine_stratified<law::stratified>{draws}, verify::ranked_block<law::stratified>{},
                      {.seeds = 1, .most_branches = 20000});
    for (int const draws : {0, 1})
        expect_proved(given_stratified{draws}, verify::ranked_block<law::stratified>{},
                      {.seeds = 1, .most_branches = 20000});
}

// Quantiles are integrated out.
TEST(proved, reference_nested_ranked_block) {
    for (int const draws : {0, 1, 2})
        expect_proved(engine_stratified<law::stratified>{draws},
                      multidraft::testing::reference::nested_ranked_block<law::stratified>{});
    for (int const draws : {0, 1, 2})
        expect_proved(given_stratified{draws}, multidraft::testing::reference::nested_ranked_block<law::stratified>{});
}

// Its quantiles are uniforms: no number is reported as a proof.
TEST(not_proved, nested_ranked_block_which_asks_for_uniforms) {
    auto const found = prove_lossless(draft::stratified{}, verify::nested_ranked_block<law::stratified>{},
                                      {.trees = {{{2}, 2}}, .seeds = 1});
    EXPECT_FALSE(found.holds());
    EXPECT_FALSE(found.exact);
    EXPECT_TRUE(found.error.empty()) << found.error;
    EXPECT_NE(found.report().find("uniforms were asked for"), std::string::npos) << found.report();
}

// Nor is there a number if nothing was run, or only a part.
TEST(not_proved, what_was_not_run) {
    EXPECT_FALSE(prove_lossless(draft::iid{}, verify::traversal<law::iid>{}, {.trees = {}}).holds());
    auto const found = prove_lossless(draft::iid{}, verify::traversal<law::iid>{},
                                      {.trees = {{{1}, 2}, {{6}, 3}}, .most_branches = 100});
    EXPECT_TRUE(found.holds()) << found.report();
    ASSERT_EQ(found.left_out.size(), 1U);
    EXPECT_NE(found.report().find("too many branches: 6, V = 3"), std::string::npos) << found.report();
    // A verifier of chains, given trees.
    auto const refused = prove_lossless(draft::iid{}, verify::block<law::iid>{}, {.trees = {{{2}, 2}}});
    EXPECT_FALSE(refused.holds());
    EXPECT_NE(refused.report().find("threw on 2, V = 2, plain, seed 1, doubles: children[0] = 2"), std::string::npos)
        << refused.report();
}

}  // namespace
}  // namespace engine_trees_test
