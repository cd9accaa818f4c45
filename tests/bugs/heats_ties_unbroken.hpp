// Bug: in the law of the best of a heat, each token of equal p/q is treated as the first of them.
#pragma once

#include "bugs/plain_heats.hpp"

namespace multidraft::bugs {

struct unbroken_ties_rules : heat_rules {
    static constexpr bool breaks_ties = false;
};

/// "No two ratios are equal" - but all are equal if the draft equals the target, and some are in rows of few different
/// numbers.
template <int Size>
using heats_ties_unbroken = plain_heats<Size, unbroken_ties_rules>;

}  // namespace multidraft::bugs
