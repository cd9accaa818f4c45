// Bug: traversal divides the residual's mass by the draft's remaining mass, as a public implementation does.
#pragma once

#include "bugs/plain_traversal.hpp"

namespace multidraft::bugs {

struct rules_divided_by_mass : traversal_rules {
    static double weight(double w, double mass, double left) { return traversal_rules::weight(w, mass / left, left); }
};

using traversal_divided_by_mass = plain_traversal<law::sequential, rules_divided_by_mass>;

}  // namespace multidraft::bugs
