// Draft rows that list their candidates: the verdicts of rows that were written out, in floats and doubles.
#include "support/candidate_rows.hpp"

#include <gtest/gtest.h>

#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/sampling_params.hpp"
#include "multidraft/verify/nested_ranked_block.hpp"
#include "multidraft/verify/ranked.hpp"
#include "multidraft/verify/ranked_block.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/traversal.hpp"

namespace MULTIDRAFT_NAMESPACE {
namespace candidate_rows_test {
namespace {

template <class Verifier, class Sampler>
void expect_same() {
    auto const on_host = [](auto const& body) { body(host_group{}); };
    for (sampling_params const& w : {sampling_params{}, {.temperature = 0.5F, .top_k = 30}, {.top_p = 0.9F}}) {
        testing::short_rows::expect_same_verdicts<Verifier, Sampler, float>(on_host, w);
        testing::short_rows::expect_same_verdicts<Verifier, Sampler, double>(on_host, w);
    }
}

TEST(candidate_rows, nested_ranked_block_decides_as_over_whole_rows) {
    expect_same<verify::nested_ranked_block<law::stratified>, draft::stratified>();
    expect_same<verify::nested_ranked_block<law::iid>, draft::iid>();
}
TEST(candidate_rows, ranked_block_decides_as_over_whole_rows) {
    expect_same<verify::ranked_block<law::stratified>, draft::stratified>();
    expect_same<verify::ranked_block<law::iid>, draft::iid>();
}
TEST(candidate_rows, ranked_decides_as_over_whole_rows) {
    expect_same<verify::ranked<law::stratified>, draft::stratified>();
}
TEST(candidate_rows, rejection_and_traversal_decide_as_over_whole_rows) {
    expect_same<verify::recursive_rejection<law::sequential>, draft::sequential>();
    expect_same<verify::traversal<law::sequential>, draft::sequential>();
}

}  // namespace
}  // namespace candidate_rows_test
}  // namespace MULTIDRAFT_NAMESPACE
