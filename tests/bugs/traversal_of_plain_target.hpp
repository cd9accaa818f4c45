// Bug: traversal subtracts the draft from the target itself, not from the target times the node's weight.
#pragma once

#include "bugs/plain_traversal.hpp"

namespace multidraft::bugs {

struct rules_of_plain_target : traversal_rules {
    static constexpr bool weighs_target = false;
};

template <draft_law Law>
using traversal_of_plain_target = plain_traversal<Law, rules_of_plain_target>;

}  // namespace multidraft::bugs
