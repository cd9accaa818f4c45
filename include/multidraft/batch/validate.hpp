// Validating a batch, its rows included, on host threads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "multidraft/base/arithmetic.hpp"
#include "multidraft/base/config.hpp"
#include "multidraft/batch/detail/check_batch.hpp"
#include "multidraft/batch/detail/host_call.hpp"
#include "multidraft/batch/detail/refusals.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/batch/request_batch.hpp"
#include "multidraft/batch/target_and_draft.hpp"
#include "multidraft/batch/tree_batch.hpp"
#include "multidraft/batch/tree_rules.hpp"
#include "multidraft/batch/validate_for.hpp"
#include "multidraft/batch/validation.hpp"
#include "multidraft/batch/workspace.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/verify/no_draft_rows.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// Bytes of workspace for `validate_batch` on a host: none.
template <host_policy P>
[[nodiscard]] constexpr std::size_t validate_workspace_size(P const&) noexcept {
    return 0;
}

/// Checks the arguments of `verify_batch` and writes the first fault to `*report`. Checked are offsets, seeds,
/// positions, sampling parameters, parents, the shapes that the verifier takes (`rules_of(verifier)`), tokens, the
/// law's conditions on children (different tokens, how many are certain), and the rows: the target's of every node, the
/// draft's of nodes with children. Each child has mass in the draft's row of its parent; if not, it was drawn with
/// other sampling parameters, masks or bias. Where a child is absent because the support ended, no token is left in
/// that row. Rows below an absent child are not checked. If there is no fault, the arithmetic of this build is tested
/// (`check_arithmetic`). `refuse_reported` throws the error for a report. The same call runs on CUDA, Kokkos and ranks;
/// the report is in memory of the machine that runs it.
///
/// Two passes over all rows, so it is meant for bringing an engine up, and for a request that got no token, not for
/// every step. Nothing is allocated. Throws `invalid_input` for missing arrays.
template <host_policy P, draft_law Law, row_batch Target, draft_row_batch Draft>
void validate_batch(P const& policy, tree_rules const& rules, drafted_batch<Law> const& drafts,
                    target_rows<Target> const& target, draft_rows<Draft> const& draft, request_batch const& requests,
                    validation_report* report, workspace const& /*scratch*/ = {}) {
    tree_batch const& trees = drafts.trees;
    detail::refuse_null(report, "report");
    detail::refuse_bad_arguments(drafts, target.rows, draft.rows, requests);
    std::atomic<detail::fault_key> first{detail::no_fault};
    constexpr detail::host_batch_group g;
    detail::parallel_for(policy, trees.requests, [&](std::int32_t b, int) {
        detail::lower(first, detail::fault_of_request(drafts, rules, target.rows, draft.rows, requests, b));
        if (!detail::offsets_are_valid(trees, b)) return;
        for (node_id v = 0; v < trees.size(b); ++v) {
            using what = batch_argument;
            detail::lower(first, detail::key_of(b, detail::check_row(g, trees, target.rows, what::target, b, v)));
            if constexpr (!std::is_same_v<Draft, verify::no_draft_rows>)
                detail::lower(first, detail::key_of(b, detail::check_row_and_draws(g, drafts, draft.rows, what::draft,
                                                                                   rules, b, v)));
        }
    });
    *report = detail::report_of(g, drafts, rules, target.rows, draft.rows, requests, first);
    if (report->what != batch_argument::nothing) return;
    if (arithmetic_fault const fault = check_arithmetic(); fault != arithmetic_fault::nothing) {
        report->what = batch_argument::arithmetic;
        report->value = static_cast<double>(fault);
    }
}

}  // namespace MULTIDRAFT_NAMESPACE
