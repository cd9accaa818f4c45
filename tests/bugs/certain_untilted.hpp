// Bug: nested ranked block verification that picks certain tokens by their positions and then takes these for uniform.
#pragma once

#include "multidraft/draft/law.hpp"
#include "multidraft/verify/binned_nested_ranked_block.hpp"

namespace multidraft::bugs {

struct certain_untilted_rules : verify::nested_rules {
    static constexpr bool tilts_certain = false;
};

/// The subtree of a certain token is verified as if its position had had no say.
template <draft_law Law>
using certain_untilted = verify::binned_nested_ranked_block<Law, certain_untilted_rules>;

}  // namespace multidraft::bugs
