// Bug: nested ranked block verification that selects certain tokens by their quantiles and then treats these as
// uniform.
#pragma once

#include "multidraft/draft/law.hpp"
#include "multidraft/verify/nested_ranked_block.hpp"

namespace multidraft::bugs {

struct certain_untilted_rules : verify::nested_rules {
    static constexpr bool conditions_certain = false;
};

/// The subtree of a certain token is verified as if the selection had not depended on its quantile.
template <draft_law Law>
using certain_unconditioned = verify::nested_ranked_block<Law, certain_untilted_rules>;

}  // namespace multidraft::bugs
