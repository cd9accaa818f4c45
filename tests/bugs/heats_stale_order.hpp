// Bug: the best of a later heat is the best by the target as it was, while its law is that of the best by what is left.
#pragma once

#include "bugs/plain_heats.hpp"

namespace multidraft::bugs {

struct stale_order_rules : heat_rules {
    static constexpr bool updates_order = false;
};

/// The tokens were sorted by p/q once, for all heats. As long as one heat is all there is the law is right: with heats
/// of three it takes four candidates and more than two tokens to be seen, and six to be seen well.
template <int Size>
using heats_stale_order = plain_heats<Size, stale_order_rules>;

}  // namespace multidraft::bugs
