// Validating a batch whose rows are distributed over ranks, with the same report on all of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/batch/arguments.hpp"
#include "multidraft/batch/detail/check_batch.hpp"
#include "multidraft/batch/detail/refusals.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/batch/validate.hpp"
#include "multidraft/batch/validation.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/shards/detail/team_call.hpp"
#include "multidraft/shards/rank_team.hpp"
#include "multidraft/shards/shard_group.hpp"
#include "multidraft/verify/traits.hpp"

namespace MULTIDRAFT_NAMESPACE {

namespace shards::detail {

/// The report of the first row that is not a distribution. The rows must be complete.
template <class Team, draft_law Law, class Target, class Draft>
[[nodiscard]] validation_report report_of_rows(Team& team, drafted_batch<Law> const& drafts, tree_rules const& rules,
                                               Target const& target, Draft const& draft,
                                               request_batch const& requests) {
    namespace batch = multidraft::detail;
    shard_group const g(team);
    tree_batch const& trees = drafts.trees;
    constexpr bool has_draft = !std::is_same_v<Draft, verify::no_draft_rows>;
    std::size_t const of_target = team.target_memory.nodes.size();
    std::size_t const of_draft = has_draft ? team.draft_memory.nodes.size() : 0;
    batch::fault_key first = batch::no_fault;
    team.run_together(of_target + of_draft, [&](std::size_t k) {
        bool const is_target = k < of_target;
        std::int64_t const i = is_target ? team.target_memory.nodes[k] : team.draft_memory.nodes[k - of_target];
        std::int32_t const b = trees.request_of(i);
        auto const v = static_cast<node_id>(i - trees.offsets[b]);
        batch::batch_fault fault;
        if (is_target)
            fault = batch::check_row(g, trees, target, batch_argument::target, b, v);
        else if constexpr (has_draft)
            fault = batch::check_row_and_draws(g, drafts, draft, batch_argument::draft, rules, b, v);
        // The task may still wait for the value that is at fault, but the row is known.
        batch::fault_key const key = batch::key_of(b, fault);
        first = key < first ? key : first;
    });
    validation_report report;
    team.run_together(
        1, [&](std::size_t) { report = batch::report_of(g, drafts, rules, target, draft, requests, first); });
    return report;
}

}  // namespace shards::detail

/// Checks the arguments of `verify_batch` like the call on a host (`batch/validate.hpp`) and writes the first fault to
/// `*report`, the same on all ranks of a team. Called by all ranks. One pass over all rows. Throws `invalid_input` on
/// all ranks if arrays are missing on one, or if a rank's trees, requests or sampling parameters differ from those of
/// rank 0 (whatever the team's `team_checks`).
template <shards::communicator C, draft_law Law, row_batch Target, draft_row_batch Draft>
void validate_batch(shards::rank_team<C>& team, tree_rules const& rules, drafted_batch<Law> const& drafts,
                    target_rows<Target> const& target, draft_rows<Draft> const& draft, request_batch const& requests,
                    validation_report* report) {
    tree_batch const& trees = drafts.trees;
    Target p = target.rows;
    Draft q = draft.rows;
    shards::detail::join_team(p, team, 0);
    shards::detail::join_team(q, team, trees.nodes);
    auto const check = [&] {
        detail::refuse_null(report, "report");
        detail::refuse_bad_arguments(drafts, p, q, requests);
    };
    // Rows and slots are a rank's own, so that a fault of theirs may be found on one rank only. Arguments are not read
    // by the slots of a request at fault.
    auto const state = [&](shards::detail::argument_summary& mine) {
        for (std::int32_t b = 0; b < trees.requests && mine.fault == detail::no_fault; ++b)
            mine.fault = detail::fault_of_request(drafts, rules, p, q, requests, b);
        if (mine.fault != detail::no_fault)
            mine.report = detail::report_of(detail::host_batch_group{}, drafts, rules, p, q, requests, mine.fault);
        else
            shards::detail::summary_of(trees, requests, p, q)(mine);
    };
    *report = shards::detail::agree_always(team, state, check);
    if (report->what != batch_argument::nothing) return;
    if (trees.requests > 0) {
        shards::detail::start_completing(team, trees, p, q);
        shards::detail::finish_completing(team, p, q);
        *report = shards::detail::report_of_rows(team, drafts, rules, p, q, requests);
    }
    *report = detail::report_with_arithmetic(*report);
}

}  // namespace MULTIDRAFT_NAMESPACE
