// An entry of a row with its key, in the order in which `top_k` returns entries.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "multidraft/base/config.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/base/span.hpp"

namespace MULTIDRAFT_NAMESPACE::kokkos {

/// An entry of a row and its key; empty without an index.
template <class Real>
struct chosen {
    Real key = minus_infinity<Real>;
    index_t index = none;

    /// Whether this entry precedes `other`: the larger key first, ties to the lower index. An empty `other` comes after
    /// every entry; an empty `this` means "no bound" and precedes every entry.
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD bool before(chosen const& other) const noexcept {
        if (index == none || other.index == none) return true;
        return key > other.key || (key == other.key && index < other.index);
    }
};

}  // namespace MULTIDRAFT_NAMESPACE::kokkos
