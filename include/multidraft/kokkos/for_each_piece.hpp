// A function called for each index of a range with Kokkos: for masks, links and outputs in engines' formats.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>

#include "multidraft/base/config.hpp"
#include "multidraft/kokkos/on.hpp"

namespace MULTIDRAFT_NAMESPACE::kokkos {

/// Calls `body(k)` for 0 <= k < count on an execution space, one thread each, in one asynchronous launch. With this
/// header the functions of `batch/` that write masks, links and outputs in engines' formats accept `kokkos::on(space)`;
/// their pointers must be to memory that the space can access.
template <class Space, template <class> class Group, class Body>
void for_each_piece(space_policy<Space, Group> const& policy, std::int64_t count, Body const& body) {
    if (count < 1) return;
    Kokkos::parallel_for("multidraft::for_each_piece",
                         Kokkos::RangePolicy<Space, Kokkos::IndexType<std::int64_t>>(policy.space, 0, count), body);
}

}  // namespace MULTIDRAFT_NAMESPACE::kokkos
