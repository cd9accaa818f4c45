// The public proof of verifiers that decide node by node, with an engine's samplers and laws that no listed method has.
#include <gtest/gtest.h>

#include "multidraft/draft/stratified.hpp"
#include "multidraft/draft/top_paired.hpp"
#include "multidraft/draft/top_then_one.hpp"
#include "multidraft/testing/engine_samplers.hpp"
#include "multidraft/verify/greedy_optimal.hpp"
#include "multidraft/verify/naive.hpp"
#include "multidraft/verify/ranked.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/speculative_sampling.hpp"
#include "reference/ranked.hpp"
#include "support/expect_proved.hpp"
#include "support/optimal_transport.hpp"

namespace engine_nodes_test {
namespace {

namespace draft = multidraft::draft;
namespace law = multidraft::law;
namespace verify = multidraft::verify;
using namespace multidraft::testing;

TEST(proved, naive) {
    expect_proved(draft::stratified{}, verify::naive<law::stratified>{});
    expect_proved(draft::top_then_one{}, verify::naive<law::top_then_one>{});
    expect_proved(draft::top_paired{}, verify::naive<law::top_paired>{}, {.trees = pairs_to_prove()});
}

TEST(proved, speculative_sampling) {
    expect_proved(engine_sequential{}, verify::speculative_sampling<law::sequential>{}, {.trees = chains_to_prove()});
}

TEST(proved, recursive_rejection) {
    expect_proved(engine_sequential{}, verify::recursive_rejection<law::sequential>{});
}

TEST(proved, greedy_optimal) {
    expect_proved(engine_stratified<law::top_then_one>{}, verify::greedy_optimal<law::top_then_one>{});
    expect_proved(engine_stratified<law::top_then_one>{0}, verify::greedy_optimal<law::top_then_one>{});
}

TEST(proved, reference_ranked) {
    for (int const draws : {0, 1, 2})
        expect_proved(engine_stratified<law::stratified>{draws},
                      multidraft::testing::reference::ranked<law::stratified>{}, {.most_branches = 20000});
}

TEST(proved, ranked) {
    for (int const draws : {0, 1, 2})
        expect_proved(engine_stratified<law::stratified>{draws}, verify::ranked<law::stratified>{},
                      {.seeds = 1, .most_branches = 20000});
    for (int const draws : {0, 1})
        expect_proved(given_stratified{draws}, verify::ranked<law::stratified>{}, {.seeds = 1, .most_branches = 20000});
}

}  // namespace
}  // namespace engine_nodes_test
