// Nested ranked block verification with a deliberate bug in its headers: the simulated law of the text differs from the
// target's, on models that reveal it. Compiled once for each such text of tests/bugs.
#include "multidraft/verify/nested_ranked_block.hpp"

#include <gtest/gtest.h>

#include <cstdio>

#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/law/law.hpp"
#include "support/chi_squared.hpp"
#include "support/simulated_step.hpp"
#include "support/tree_cases.hpp"

namespace {

using namespace multidraft;
using namespace multidraft::testing;

using drawn = draft::MULTIDRAFT_PATCHED_LAW;

TEST(bugs_in_headers, are_caught) {
    chi_squared all;
    for (auto const& c : golden_trees())
        all += simulate<verify::nested_ranked_block<drawn::law>>(drawn{}, c.children, c.models, 12000, 5).fit;
    std::printf("    chi-squared %.0f of %.0f, p = %.2g\n", all.statistic, all.freedom, all.p_value());
    EXPECT_LT(all.p_value(), failure_level);
}

}  // namespace
