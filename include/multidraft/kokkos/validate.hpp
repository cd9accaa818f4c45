// Validating a batch with Kokkos before it is verified: the first bad argument.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <cstddef>
#include <cstdint>

#include "multidraft/base/arithmetic.hpp"
#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/batch/detail/check_batch.hpp"
#include "multidraft/batch/detail/refusals.hpp"
#include "multidraft/batch/request_batch.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/batch/target_and_draft.hpp"
#include "multidraft/batch/tree_batch.hpp"
#include "multidraft/batch/tree_rules.hpp"
#include "multidraft/batch/validate_for.hpp"
#include "multidraft/batch/validation.hpp"
#include "multidraft/batch/workspace.hpp"
#include "multidraft/kokkos/on.hpp"
#include "multidraft/kokkos/team_group.hpp"
#include "multidraft/law/law.hpp"

namespace MULTIDRAFT_NAMESPACE {

namespace kokkos::detail {

using multidraft::detail::fault_key;

/// One thread per request.
template <class Law, class Target, class Draft>
struct check_requests {
    drafted_batch<Law> drafts;
    tree_rules rules;
    Target target;
    Draft draft;
    request_batch requests;
    fault_key* key;

    MULTIDRAFT_HD void operator()(std::int64_t k) const {
        namespace checks = multidraft::detail;
        auto const b = static_cast<std::int32_t>(k);
        tree_batch const& trees = drafts.trees;
        fault_key first = checks::key_of(b, checks::check_request(trees, requests, target, draft, b));
        if (checks::offsets_are_valid(trees, b)) {
            fault_key const of_shape = checks::key_of(b, checks::check_shape(trees, rules, b));
            first = of_shape < first ? of_shape : first;
            for (node_id v = 0; v < trees.size(b); ++v) {
                fault_key const here = checks::key_of(b, checks::check_node(drafts, rules, target.vocabulary, b, v));
                first = here < first ? here : first;
            }
        }
        if (first != checks::no_fault) Kokkos::atomic_fetch_min(key, first);
    }
};

struct clear_key {
    fault_key* key;
    MULTIDRAFT_HD void operator()(std::int64_t) const { *key = multidraft::detail::no_fault; }
};

/// One row per team.
template <class Space, template <class> class Group, class Law, class Rows>
struct check_rows {
    using member = typename Kokkos::TeamPolicy<Space>::member_type;

    drafted_batch<Law> drafts;
    tree_rules rules;
    Rows rows;
    batch_argument what;
    fault_key* key;

    MULTIDRAFT_HD void operator()(member const& team) const {
        namespace checks = multidraft::detail;
        Group<member> const g(team);
        tree_batch const& trees = drafts.trees;
        auto const node = static_cast<std::int64_t>(team.league_rank());
        std::int32_t const b = trees.request_of(node);
        std::int64_t const v = node - trees.offsets[b];
        if (!checks::offsets_are_valid(trees, b) || v < 0 || node >= trees.offsets[b + 1]) return;
        auto const f = checks::check_row_and_draws(g, drafts, rows, what, rules, b, static_cast<node_id>(v));
        if (g.leader() && f.what != batch_argument::nothing) Kokkos::atomic_fetch_min(key, checks::key_of(b, f));
    }
};

/// Recovers the fault of the smallest key.
template <class Space, template <class> class Group, class Law, class Target, class Draft>
struct write_report {
    using member = typename Kokkos::TeamPolicy<Space>::member_type;

    drafted_batch<Law> drafts;
    tree_rules rules;
    Target target;
    Draft draft;
    request_batch requests;
    fault_key const* key;
    validation_report* out;

    MULTIDRAFT_HD void operator()(member const& team) const {
        Group<member> const g(team);
        fault_key const first = *key;
        validation_report report = multidraft::detail::report_of(g, drafts, rules, target, draft, requests, first);
        if (first == multidraft::detail::no_fault) {
            if (arithmetic_fault const fault = check_arithmetic(); fault != arithmetic_fault::nothing) {
                report.what = batch_argument::arithmetic;
                report.value = static_cast<double>(fault);
            }
        }
        if (g.leader()) *out = report;
    }
};

}  // namespace kokkos::detail

/// Bytes of workspace for `validate_batch` with Kokkos, aligned to 8 bytes.
template <class Space, template <class> class Group>
[[nodiscard]] constexpr std::size_t validate_workspace_size(kokkos::space_policy<Space, Group> const&) noexcept {
    return sizeof(detail::fault_key);
}

/// Checks the arguments of `verify_batch` with Kokkos, with the arguments of every backend (`batch/validate.hpp`), and
/// writes the first fault to `*report`, in memory of the space. Asynchronous: fence the space, then read the report and
/// pass it to `refuse_reported`.
///
/// One pass over all rows: for bringing an engine up, not for every step. Throws `invalid_input`, with nothing
/// launched, for missing arrays and too small a workspace.
template <class Space, template <class> class Group, draft_law Law, row_batch Target, draft_row_batch Draft>
void validate_batch(kokkos::space_policy<Space, Group> const& policy, tree_rules const& rules,
                    drafted_batch<Law> const& drafts, target_rows<Target> const& target, draft_rows<Draft> const& draft,
                    request_batch const& requests, validation_report* report, workspace const& scratch) {
    namespace machine = kokkos::detail;
    tree_batch const& trees = drafts.trees;
    detail::refuse_null(report, "report");
    if (scratch.data == nullptr || scratch.size < validate_workspace_size(policy))
        refuse("workspace.size", scratch.size, "8 bytes are needed (validate_workspace_size)");
    detail::refuse_bad_arguments(drafts, target.rows, draft.rows, requests);
    auto* const key = static_cast<detail::fault_key*>(scratch.data);
    using range = Kokkos::RangePolicy<Space, Kokkos::IndexType<std::int64_t>>;
    Kokkos::parallel_for("multidraft::validate_batch", range(policy.space, 0, 1), machine::clear_key{key});
    if (trees.requests > 0)
        Kokkos::parallel_for(
            "multidraft::validate_batch", range(policy.space, 0, trees.requests),
            machine::check_requests<Law, Target, Draft>{drafts, rules, target.rows, draft.rows, requests, key});
    auto const teams = [&](std::int64_t count) {
        return kokkos::team_policy<Group>(policy.space, static_cast<std::size_t>(count), policy.options);
    };
    if (trees.nodes > 0) {
        Kokkos::parallel_for(
            "multidraft::validate_batch", teams(trees.nodes),
            machine::check_rows<Space, Group, Law, Target>{drafts, rules, target.rows, batch_argument::target, key});
        if constexpr (row_batch<Draft>)
            Kokkos::parallel_for(
                "multidraft::validate_batch", teams(trees.nodes),
                machine::check_rows<Space, Group, Law, Draft>{drafts, rules, draft.rows, batch_argument::draft, key});
    }
    Kokkos::parallel_for("multidraft::validate_batch", teams(1),
                         machine::write_report<Space, Group, Law, Target, Draft>{drafts, rules, target.rows, draft.rows,
                                                                                 requests, key, report});
}

}  // namespace MULTIDRAFT_NAMESPACE
