// Bug: nested ranked block verification in which two draws of one token share the subtree of the first.
#pragma once

#include "multidraft/draft/law.hpp"
#include "multidraft/verify/nested_ranked_block.hpp"

namespace multidraft::bugs {

struct second_draw_into_first_rules : verify::nested_rules {
    static constexpr bool all_draws_have_subtrees = false;
};

/// The second draw of a token has a fresh quantile and leads to the subtree of the first. Looks harmless, since both
/// are drawn alike; but its being selected implies that the quantile of that subtree was worse.
template <draft_law Law>
using second_draw_into_first = verify::nested_ranked_block<Law, second_draw_into_first_rules>;

}  // namespace multidraft::bugs
