// Bug: traversal decides the leaves only: an inner node is refused with the last of its children.
#pragma once

#include "bugs/plain_traversal.hpp"

namespace multidraft::bugs {

struct rules_of_leaves : traversal_rules {
    static constexpr bool decides_inner_nodes = false;
};

template <draft_law Law>
using traversal_of_leaves = plain_traversal<Law, rules_of_leaves>;

}  // namespace multidraft::bugs
