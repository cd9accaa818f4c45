// The policy of batched calls with Kokkos: an execution space.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "multidraft/base/config.hpp"
#include "multidraft/kokkos/team_group.hpp"

namespace MULTIDRAFT_NAMESPACE::kokkos {

/// An execution space, launch options, and the group that launches run.
template <class Space, template <class> class Group = team_group>
struct space_policy {
    Space space;
    launch_options options{};
};

/// Runs `verify_batch`, `draft_batch` and `validate_batch` on an execution space, after its earlier work. All their
/// pointers are to memory that the space can access (see `kokkos/from_views.hpp`). The library allocates nothing and
/// does not wait, so views must live until the space is fenced.
template <template <class> class Group = team_group, class Space>
[[nodiscard]] space_policy<Space, Group> on(Space const& space, launch_options const& options = {}) {
    return {space, options};
}

}  // namespace MULTIDRAFT_NAMESPACE::kokkos
