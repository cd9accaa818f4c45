// Drawing the children of a level of a batch whose rows are distributed over ranks, with the tokens of one host.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/batch/arguments.hpp"
#include "multidraft/batch/detail/check_batch.hpp"
#include "multidraft/batch/detail/refusals.hpp"
#include "multidraft/batch/draft.hpp"
#include "multidraft/batch/level_batch.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/draft/sampler.hpp"
#include "multidraft/shards/detail/team_call.hpp"
#include "multidraft/shards/rank_team.hpp"
#include "multidraft/shards/shard_group.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// Bytes of workspace for `draft_batch` on a rank, beside the team's own memory: none.
template <shards::communicator C>
[[nodiscard]] constexpr std::size_t draft_workspace_size(shards::rank_team<C> const&,
                                                         std::int32_t /*entries*/) noexcept {
    return 0;
}

/// Draws the children of the nodes of a level from rows that are distributed over the ranks of a team. The arguments
/// are those of the call on a host (`batch/draft.hpp`). Called by all ranks with the same level and requests; all get
/// the same tokens, which are those of the host for whole rows.
///
/// `rows`: `draft_rows` of a `shards::shard_batch`, or of a `logit_batch` that is on every rank (the ranks then divide
/// the work). All entries are drawn together. Calls of the communicator: one to compare arguments, one to complete
/// chunks, and as many as the entry that needs the most. Throws like `verify_batch` of a team.
template <shards::communicator C, sampler Sampler, class Rows>
void draft_batch(shards::rank_team<C>& team, Sampler const& sampler, level_batch const& level,
                 draft_rows<Rows> const& rows, request_batch const& requests, children_batch const& out,
                 workspace const& /*scratch*/ = {}) {
    Rows q = rows.rows;
    shards::detail::join_team(q, team, 0);
    auto const state = [&](shards::detail::argument_summary& mine) {
        shards::detail::checksum of_requests;
        shards::detail::checksum of_rows;
        for (std::int32_t e = 0; e < level.entries; ++e) {
            std::int32_t const b = level.requests[e];
            of_requests.add(requests.seed(b));
            of_requests.add(requests.position(b));
            of_requests.add(requests.id(b));
            of_rows.add(q.sampling_of(b));
        }
        of_rows.add(q.vocabulary);
        mine.sums = {0, of_requests.value(), 0, of_rows.value(), shards::detail::checksum_of_level(level, out)};
    };
    shards::detail::agree(team, state, [&] {
        detail::refuse_bad_level<Sampler>(level, q, requests, out);
        detail::check_entries_of_level(sampler, level, q, requests, out);
        detail::refuse_candidates(level, q);
    });
    if (level.entries == 0) return;
    auto& memory = team.draft_memory;
    memory.nodes.clear();
    memory.entries.clear();
    for (std::int32_t e = 0; e < level.entries; ++e) memory.nodes.push_back(e);
    team.complete(shards::detail::to_complete<shards::rank_team<C>>(q, memory));
    shards::shard_group const g(team);
    team.run_together(static_cast<std::size_t>(level.entries), [&](std::size_t e) {
        detail::draft_entry(g, sampler, static_cast<std::int32_t>(e), level, q, requests, out);
    });
}

}  // namespace MULTIDRAFT_NAMESPACE
