// Drafting a level of a batch of trees with Kokkos: one team per node, in one launch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <cstddef>
#include <cstdint>

#include "multidraft/base/config.hpp"
#include "multidraft/batch/detail/refusals.hpp"
#include "multidraft/batch/draft_entry.hpp"
#include "multidraft/batch/level_batch.hpp"
#include "multidraft/batch/request_batch.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/batch/target_and_draft.hpp"
#include "multidraft/batch/workspace.hpp"
#include "multidraft/draft/sampler.hpp"
#include "multidraft/kokkos/on.hpp"
#include "multidraft/kokkos/team_group.hpp"

namespace MULTIDRAFT_NAMESPACE {

namespace kokkos::detail {

template <class Space, template <class> class Group, sampler Sampler, class Rows>
struct draft_kernel {
    using member = typename Kokkos::TeamPolicy<Space>::member_type;

    Sampler sampler;
    level_batch level;
    Rows rows;
    request_batch requests;
    children_batch out;

    MULTIDRAFT_HD void operator()(member const& team) const {
        Group<member> const g(team);
        multidraft::detail::draft_entry(g, sampler, static_cast<std::int32_t>(team.league_rank()), level, rows,
                                        requests, out);
    }
};

}  // namespace kokkos::detail

/// Bytes of workspace for `draft_batch` with Kokkos: none.
template <class Space, template <class> class Group>
[[nodiscard]] constexpr std::size_t draft_workspace_size(kokkos::space_policy<Space, Group> const&,
                                                         std::int32_t /*entries*/) noexcept {
    return 0;
}

/// Draws the children of the nodes of a level with Kokkos, with the arguments of every backend (`batch/draft.hpp`), one
/// team per entry. The tokens are those of the host, whatever the team size. Throws `invalid_input`, with nothing
/// launched, for missing arrays. Nothing throws in the launch: a row that is not a distribution gets no children.
template <class Space, template <class> class Group, sampler Sampler, logit_row_batch Rows>
void draft_batch(kokkos::space_policy<Space, Group> const& policy, Sampler const& sampler, level_batch const& level,
                 draft_rows<Rows> const& rows, request_batch const& requests, children_batch const& out,
                 workspace const& /*scratch*/ = {}) {
    detail::refuse_bad_level<Sampler>(level, rows.rows, requests, out);
    auto const teams =
        kokkos::team_policy<Group>(policy.space, static_cast<std::size_t>(level.entries), policy.options);
    if (level.entries == 0) return;
    Kokkos::parallel_for(
        "multidraft::draft_batch", teams,
        kokkos::detail::draft_kernel<Space, Group, Sampler, Rows>{sampler, level, rows.rows, requests, out});
}

}  // namespace MULTIDRAFT_NAMESPACE
