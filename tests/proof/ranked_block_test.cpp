// Ranked block verification from histograms: the exact law of its output, and its acceptance.
#include "multidraft/verify/ranked_block.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/stratified.hpp"
#include "support/tree_cases.hpp"

namespace ranked_block_test {
namespace {

namespace draft = multidraft::draft;
namespace law = multidraft::law;
namespace verify = multidraft::verify;
using multidraft::testing::law_of_step;
using multidraft::testing::tree_case;

std::vector<tree_case> trees() {
    return {{{1}, 1},    {{1}, 3},    {{2}, 1},    {{2}, 3},    {{2}, 4},    {{3}, 3},
            {{1, 1}, 3}, {{1, 2}, 3}, {{2, 1}, 2}, {{2, 1}, 3}, {{3, 1}, 2}, {{2, 2}, 2}};
}

TEST(ranked_block, is_lossless) {
    multidraft::testing::expect_lossless_trees<draft::iid, verify::ranked_block<law::iid>>(trees(), {}, {}, 1);
    multidraft::testing::expect_lossless_trees<draft::stratified, verify::ranked_block<law::stratified>>(trees(), {},
                                                                                                         {}, 2);
}

TEST(ranked_block, accepts_what_the_exact_form_does) {
    double worst = 0;
    for (auto const& c : multidraft::testing::golden_trees()) {
        if (c.children != multidraft::testing::shape{2, 1}) continue;
        double const iid =
            law_of_step(draft::iid{}, verify::ranked_block<law::iid>{}, c.children, c.models).mean_accepted;
        double const stratified =
            law_of_step(draft::stratified{}, verify::ranked_block<law::stratified>{}, c.children, c.models)
                .mean_accepted;
        worst = std::max({worst, std::abs(iid - c.mean_accepted("ranked_block/iid")),
                          std::abs(stratified - c.mean_accepted("ranked_block/stratified"))});
    }
    std::printf("    at most %.2e from the exact form\n", worst);
    EXPECT_LT(worst, 1e-3);
}

}  // namespace
}  // namespace ranked_block_test
