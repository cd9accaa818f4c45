// Trees in which all nodes of a depth have the same row or the same list of children: which verifiers are lossless for
// them, and that a wrong claim is caught. The proofs of all methods (methods_*_test.cpp) contain such trees too.
#include <gtest/gtest.h>

#include "bugs/claims_shared_lists.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/draft/top_then_one.hpp"
#include "multidraft/methods/list.hpp"
#include "multidraft/testing/prove_lossless.hpp"
#include "multidraft/verify/greedy_optimal.hpp"
#include "multidraft/verify/k_seq.hpp"
#include "multidraft/verify/multi_path_block.hpp"
#include "multidraft/verify/naive.hpp"
#include "multidraft/verify/one_of.hpp"
#include "multidraft/verify/ranked_block.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/traits.hpp"
#include "multidraft/verify/traversal.hpp"
#include "reference/nested_ranked_block.hpp"

namespace shared_lists_test {
namespace {

namespace draft = multidraft::draft;
namespace law = multidraft::law;
namespace reference = multidraft::testing::reference;
namespace verify = multidraft::verify;
using multidraft::bugs::claims_shared_lists;
using multidraft::testing::proof_options;
using multidraft::testing::prove_lossless;

proof_options shared() {
    return {.trees = {{{2, 1}, 3, {}, true},
                      {{2, 2}, 2, {}, true},
                      {{2, 2}, 3, {}, true},
                      {{3, 2}, 2, {}, true},
                      {{2, 1, 1}, 2, {}, true},
                      {{2, 2, 1}, 2, {}, true}},
            .most_branches = 200000};
}

template <class Sampler, class Verifier>
void expect_lossless() {
    static_assert(verify::lists_may_be_shared<Verifier>);
    auto const found = prove_lossless(Sampler{}, Verifier{}, shared());
    EXPECT_TRUE(found.holds()) << found.report();
    EXPECT_GT(found.cases, 180) << found.report();
}

TEST(shared_lists, verifiers_that_decide_node_by_node_are_lossless) {
    expect_lossless<draft::sequential, verify::recursive_rejection<law::sequential>>();
    expect_lossless<draft::iid, verify::recursive_rejection<law::iid>>();
    expect_lossless<draft::iid, verify::k_seq<law::iid>>();
    expect_lossless<draft::sequential, verify::naive<law::sequential>>();
    expect_lossless<draft::top_then_one, verify::greedy_optimal<law::top_then_one>>();
}

TEST(shared_lists, ranked_block_is_lossless) {
    expect_lossless<draft::iid, verify::ranked_block<law::iid>>();
    expect_lossless<draft::stratified, verify::ranked_block<law::stratified>>();
}

template <class Sampler, class Verifier>
void expect_biased(proof_options options = shared()) {
    static_assert(!verify::lists_may_be_shared<Verifier>);
    EXPECT_EQ(prove_lossless(Sampler{}, Verifier{}, options).cases, 0) << "it does not take such trees";
    auto const found = prove_lossless(Sampler{}, claims_shared_lists<Verifier>{}, options);
    EXPECT_FALSE(found.holds()) << found.report();
    EXPECT_TRUE(found.error.empty()) << found.report();
    EXPECT_GT(found.distance.value, 1e-3) << found.report();  // nine orders above the tolerance
}

TEST(shared_lists, a_wrong_claim_is_caught) {
    expect_biased<draft::sequential, verify::traversal<law::sequential>>();
    expect_biased<draft::iid, verify::traversal<law::iid>>();
    expect_biased<draft::iid, verify::multi_path_block>(
        {.trees = {{{2, 1}, 3, {}, true}, {{3, 1}, 2, {}, true}, {{2, 1, 1}, 2, {}, true}}});
}

/// With the rows of a block drafter, one for each depth, and draws of their own every verifier is lossless.
template <class Sampler, class Verifier>
void expect_lossless_of_rows(proof_options options = {.trees = {{{2, 1}, 3, {}, false, true},
                                                                {{2, 2}, 2, {}, false, true},
                                                                {{2, 2}, 3, {}, false, true},
                                                                {{3, 2}, 2, {}, false, true},
                                                                {{2, 2, 1}, 2, {}, false, true}},
                                                      .most_branches = 200000}) {
    auto const found = prove_lossless(Sampler{}, Verifier{}, options);
    EXPECT_TRUE(found.holds()) << found.report();
    EXPECT_GT(found.cases, 60) << found.report();
}

TEST(shared_rows, all_verifiers_are_lossless) {
    expect_lossless_of_rows<draft::sequential, verify::recursive_rejection<law::sequential>>();
    expect_lossless_of_rows<draft::sequential, verify::traversal<law::sequential>>();
    expect_lossless_of_rows<draft::iid, verify::traversal<law::iid>>();
    expect_lossless_of_rows<draft::iid, verify::k_seq<law::iid>>();
    expect_lossless_of_rows<draft::stratified, verify::ranked_block<law::stratified>>();
    expect_lossless_of_rows<draft::iid, verify::multi_path_block>(
        {.trees = {{{2, 1}, 3, {}, false, true}, {{3, 1}, 2, {}, false, true}, {{2, 1, 1}, 2, {}, false, true}}});
    proof_options integrated{.trees = {{{2, 1}, 3, {}, false, true},
                                       {{2, 2}, 2, {}, false, true},
                                       {{2, 2}, 3, {}, false, true},
                                       {{2, 1, 1}, 2, {}, false, true}},
                             .seeds = 3,
                             .floats = false};
    expect_lossless_of_rows<draft::iid, reference::nested_ranked_block<law::iid>>(integrated);
    expect_lossless_of_rows<draft::stratified, reference::nested_ranked_block<law::stratified>>(integrated);
}

// One of several verifiers takes them only if all do.
using node_by_node = verify::one_of<verify::recursive_rejection<law::iid>, verify::k_seq<law::iid>>;
using mixed = verify::one_of<verify::recursive_rejection<law::iid>, verify::traversal<law::iid>>;
static_assert(verify::lists_may_be_shared<node_by_node> && !verify::lists_may_be_shared<mixed>);

using shared_iid = law::shared_lists<law::iid>;
static_assert(verify::takes_law<verify::recursive_rejection<law::iid>, shared_iid> &&
              verify::takes_law<verify::recursive_rejection<law::iid>, law::iid> &&
              !verify::takes_law<verify::recursive_rejection<law::sequential>, shared_iid> &&
              !verify::takes_law<verify::traversal<law::iid>, shared_iid>);
static_assert(multidraft::counts_certain<law::shared_lists<law::stratified>> &&
              multidraft::tokens_differ<law::shared_lists<law::sequential>> && !multidraft::tokens_differ<shared_iid>);

}  // namespace
}  // namespace shared_lists_test
