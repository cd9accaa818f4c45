// Where a batched call runs with Kokkos: on an execution space.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "multidraft/core/config.hpp"
#include "multidraft/kokkos/team_group.hpp"

namespace MULTIDRAFT_NAMESPACE::kokkos {

/// An execution space, what its caller decides about launches there, and the group that they run.
template <class Space, template <class> class Group = team_group>
struct space_policy {
    Space space;
    launch_options options{};
};

/// Has `verify_batch`, `draft_batch` and `validate_batch` run on an execution space, which orders them after its
/// earlier work: all their pointers are then to memory that the space can access (see `kokkos/from_views.hpp`). Nothing
/// is allocated by the library and nothing is waited for, so views must live until the space is fenced.
template <template <class> class Group = team_group, class Space>
[[nodiscard]] space_policy<Space, Group> on(Space const& space, launch_options const& options = {}) {
    return {space, options};
}

}  // namespace MULTIDRAFT_NAMESPACE::kokkos
