// Bug: traversal keeps a node's weight when one of its children was refused.
#pragma once

#include "bugs/plain_traversal.hpp"

namespace multidraft::bugs {

struct rules_keeping_weight : traversal_rules {
    static double weight(double w, double /*mass*/, double /*left*/) { return w; }
};

template <draft_law Law>
using traversal_keeps_weight = plain_traversal<Law, rules_keeping_weight>;

}  // namespace multidraft::bugs
