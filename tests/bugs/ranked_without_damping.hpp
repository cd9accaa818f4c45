// Bug: nested ranked block verification that ignores that refused quantiles are selected less often.
#pragma once

#include "multidraft/draft/law.hpp"
#include "multidraft/verify/nested_ranked_block.hpp"

namespace multidraft::bugs {

struct ranked_without_damping_rules : verify::nested_rules {
    static constexpr bool damps = false;
};

/// The conditional distribution function of a candidate is computed as if certain tokens never replaced it.
template <draft_law Law>
using ranked_without_damping = verify::nested_ranked_block<Law, ranked_without_damping_rules>;

}  // namespace multidraft::bugs
