// Bug: the best of a later heat is chosen by the original target, while its law is that of the best by the residual.
#pragma once

#include "bugs/plain_heats.hpp"

namespace multidraft::bugs {

struct stale_order_rules : heat_rules {
    static constexpr bool updates_order = false;
};

/// The tokens were sorted by p/q once, for all heats. With a single heat the law is right. With heats of three the bias
/// shows from four candidates and more than two tokens on, and clearly from six.
template <int Size>
using heats_stale_order = plain_heats<Size, stale_order_rules>;

}  // namespace multidraft::bugs
