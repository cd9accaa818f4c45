// The public proof under the conditions of a launch: slots for children that could not be drawn, and no exceptions.
#include <gtest/gtest.h>

#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/draft/top_n.hpp"
#include "multidraft/draft/top_paired.hpp"
#include "multidraft/draft/top_then_one.hpp"
#include "multidraft/testing/engine_samplers.hpp"
#include "multidraft/testing/prove_lossless.hpp"
#include "multidraft/verify/block.hpp"
#include "multidraft/verify/greedy_optimal.hpp"
#include "multidraft/verify/k_seq.hpp"
#include "multidraft/verify/merged.hpp"
#include "multidraft/verify/multi_path_block.hpp"
#include "multidraft/verify/naive.hpp"
#include "multidraft/verify/ranked.hpp"
#include "multidraft/verify/ranked_block.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/spec_hub.hpp"
#include "multidraft/verify/speculative_sampling.hpp"
#include "multidraft/verify/traversal.hpp"

namespace padded_trees_test {
namespace {

namespace draft = multidraft::draft;
namespace law = multidraft::law;
namespace verify = multidraft::verify;
using namespace multidraft::testing;

template <class Sampler, class Verifier>
void expect_proved_with_padding(Sampler sampler, Verifier verifier, std::vector<tree_case> trees = trees_to_prove()) {
    auto const found = prove_lossless<silent_group>(sampler, verifier,
                                                    {.trees = std::move(trees), .seeds = 1, .most_branches = 20000});
    EXPECT_TRUE(found.holds()) << found.report();
    EXPECT_GT(found.cases, 250);
}

TEST(padded_trees, of_verifiers_that_decide_node_by_node) {
    expect_proved_with_padding(draft::top_n{}, verify::naive<law::deterministic>{});
    expect_proved_with_padding(draft::sequential{}, verify::naive<law::sequential>{});
    expect_proved_with_padding(draft::stratified{}, verify::naive<law::stratified>{});
    expect_proved_with_padding(engine_sequential{}, verify::speculative_sampling<law::sequential>{}, chains_to_prove());
    expect_proved_with_padding(engine_sequential{}, verify::recursive_rejection<law::sequential>{});
    expect_proved_with_padding(draft::iid{}, verify::merged<verify::recursive_rejection<law::iid>>{});
    expect_proved_with_padding(draft::iid{}, verify::k_seq<law::iid>{});
    expect_proved_with_padding(engine_stratified<law::top_then_one>{}, verify::greedy_optimal<law::top_then_one>{});
    expect_proved_with_padding(draft::top_paired{}, verify::spec_hub<law::top_paired>{}, pairs_to_prove());
    expect_proved_with_padding(draft::stratified{}, verify::ranked<law::stratified>{});
    for (int const draws : {0, 1})
        expect_proved_with_padding(engine_stratified<law::stratified>{draws}, verify::ranked<law::stratified>{});
}

TEST(padded_trees, of_verifiers_of_whole_trees) {
    expect_proved_with_padding(engine_sequential{}, verify::block<law::sequential>{}, chains_to_prove());
    expect_proved_with_padding(engine_sequential{}, verify::traversal<law::sequential>{});
    expect_proved_with_padding(draft::sequential{}, verify::traversal<law::sequential>{});
    expect_proved_with_padding(draft::iid{}, verify::traversal<law::iid>{});
    expect_proved_with_padding(draft::iid{}, verify::multi_path_block{}, forks_to_prove());
    expect_proved_with_padding(draft::stratified{}, verify::ranked_block<law::stratified>{});
    for (int const draws : {0, 1})
        expect_proved_with_padding(engine_stratified<law::stratified>{draws}, verify::ranked_block<law::stratified>{});
}

}  // namespace
}  // namespace padded_trees_test
