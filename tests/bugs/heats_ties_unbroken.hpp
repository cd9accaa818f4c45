// Bug: tokens of one p/q are each taken for the first of them in the law of the best of a heat.
#pragma once

#include "bugs/plain_heats.hpp"

namespace multidraft::bugs {

struct unbroken_ties_rules : heat_rules {
    static constexpr bool breaks_ties = false;
};

/// "No two ratios are equal" - but those of a draft that is the target are, and of rows of few different numbers some.
template <int Size>
using heats_ties_unbroken = plain_heats<Size, unbroken_ties_rules>;

}  // namespace multidraft::bugs
