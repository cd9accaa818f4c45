// Calls for each row of a batch with Kokkos: one team for each row, in one launch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/batch/workspace.hpp"
#include "multidraft/kokkos/on.hpp"
#include "multidraft/kokkos/team_group.hpp"

namespace MULTIDRAFT_NAMESPACE::kokkos {

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

/// Bytes of workspace for calls over up to `rows` rows with Kokkos (`prepare_batch`, `predict_batch`): none.
template <class Space, template <class> class Group>
[[nodiscard]] constexpr std::size_t row_workspace_size(space_policy<Space, Group> const&,
                                                       std::int64_t /*rows*/) noexcept {
    return 0;
}

/// Calls `make(rows)(g, i)` for 0 <= i < count on an execution space, in one asynchronous launch, where g is the group
/// of a team. With this header `prepare_batch` and `predict_batch` take `kokkos::on(space)`; their pointers must be to
/// memory that the space can access. Throws `invalid_input` for 2^31 rows or more.
template <class Space, template <class> class Group, class Rows, class Make>
void for_each_row(space_policy<Space, Group> const& policy, std::int64_t count, Rows const& rows, Make const& make,
                  workspace const& /*scratch*/ = {}) {
    if (count < 1) return;
    auto const body = make(rows);
    Kokkos::parallel_for("multidraft::for_each_row",
                         team_policy<Group>(policy.space, static_cast<std::size_t>(count), policy.options),
                         detail::row_kernel<Space, Group, std::remove_const_t<decltype(body)>>{body});
}

}  // namespace MULTIDRAFT_NAMESPACE::kokkos
