// The policy of batched calls with Kokkos: an execution space, and its launches over indices and over rows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/batch/arguments.hpp"
#include "multidraft/batch/execution_policy.hpp"
#include "multidraft/kokkos/team_group.hpp"

namespace MULTIDRAFT_NAMESPACE::kokkos {

/// An execution space, launch options, and the group that launches run.
template <class Space, template <class> class Group = team_group>
struct space_policy {
    Space space;
    launch_options options{};
};

/// Runs the calls of `batch/` on an execution space, after its earlier work. All their pointers are to memory that the
/// space can access (see `kokkos/from_views.hpp`). The library allocates nothing and does not wait, so views must live
/// until the space is fenced.
template <template <class> class Group = team_group, class Space>
[[nodiscard]] space_policy<Space, Group> on(Space const& space, launch_options const& options = {}) {
    return {space, options};
}

namespace detail {

template <class Space, template <class> class Group, class Body>
struct row_kernel {
    using member = typename Kokkos::TeamPolicy<Space>::member_type;

    Body body;

    MULTIDRAFT_HD void operator()(member const& team) const {
        Group<member> const g(team);
        body(g, static_cast<std::int64_t>(team.league_rank()));
    }
};

}  // namespace detail

/// Calls `body(k)` for 0 <= k < count on an execution space, one thread each, in one asynchronous launch.
template <class Space, template <class> class Group, class Body>
void for_each(space_policy<Space, Group> const& policy, std::int64_t count, Body const& body) {
    if (count < 1) return;
    Kokkos::parallel_for("multidraft::for_each",
                         Kokkos::RangePolicy<Space, Kokkos::IndexType<std::int64_t>>(policy.space, 0, count), body);
}

/// Bytes of workspace for calls over up to `rows` rows with Kokkos (`prepare_batch`, `predict_batch`): none.
template <class Space, template <class> class Group>
[[nodiscard]] constexpr std::size_t row_workspace_size(space_policy<Space, Group> const&,
                                                       std::int64_t /*rows*/) noexcept {
    return 0;
}

/// Calls `make(rows)(g, i)` for 0 <= i < count on an execution space, in one asynchronous launch, where g is the group
/// of a team. Throws `invalid_input` for 2^31 rows or more.
template <class Space, template <class> class Group, class Rows, class Make>
void for_each_row(space_policy<Space, Group> const& policy, std::int64_t count, Rows const& rows, Make const& make,
                  workspace const& /*scratch*/ = {}) {
    if (count < 1) return;
    multidraft::detail::refuse_too_many_rows(count);
    auto const body = make(rows);
    Kokkos::parallel_for("multidraft::for_each_row",
                         team_policy<Group>(policy.space, static_cast<std::size_t>(count), policy.options),
                         detail::row_kernel<Space, Group, std::remove_const_t<decltype(body)>>{body});
}

}  // namespace MULTIDRAFT_NAMESPACE::kokkos
