// Draft rows that list their candidates, on emulated threads, which know no runs: the verdicts of whole rows.
#include "support/candidate_rows.hpp"

#include <gtest/gtest.h>

#include "multidraft/draft/stratified.hpp"
#include "multidraft/verify/nested_ranked_block.hpp"
#include "support/emulated_group.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {
namespace candidate_rows_test {
namespace {

TEST(candidate_rows, emulated_threads_decide_as_over_whole_rows) {
    short_rows::expect_same_verdicts<verify::nested_ranked_block<law::stratified>, draft::stratified, float>(
        [](auto const& body) { on_group<64, 2>(1, body); }, {}, 6);
}

}  // namespace
}  // namespace candidate_rows_test
}  // namespace MULTIDRAFT_NAMESPACE::testing
