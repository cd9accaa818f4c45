// Bug: nested ranked block verification that forgets that refused positions are picked less often.
#pragma once

#include "multidraft/draft/law.hpp"
#include "multidraft/verify/binned_nested_ranked_block.hpp"

namespace multidraft::bugs {

struct ranked_without_damping_rules : verify::nested_rules {
    static constexpr bool damps = false;
};

/// The tilt of a candidate is made as if certain tokens never took its place.
template <draft_law Law>
using ranked_without_damping = verify::binned_nested_ranked_block<Law, ranked_without_damping_rules>;

}  // namespace multidraft::bugs
