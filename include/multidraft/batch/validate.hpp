// Validating a batch, its rows included, wherever a call runs: the first bad argument, by request, index and value.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <type_traits>

#include "multidraft/base/arithmetic.hpp"
#include "multidraft/base/config.hpp"
#include "multidraft/batch/arguments.hpp"
#include "multidraft/batch/detail/check_batch.hpp"
#include "multidraft/batch/detail/refusals.hpp"
#include "multidraft/batch/execution_policy.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/batch/validation.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/verify/traits.hpp"
#include "multidraft/verify/verifier.hpp"

namespace MULTIDRAFT_NAMESPACE {

namespace detail {

/// The first fault found so far, in the memory of the report: `index` is its key, and `request` the last request whose
/// rows matter.
class first_fault {
public:
    explicit MULTIDRAFT_HD first_fault(validation_report* report) noexcept : report_(report) {}

    MULTIDRAFT_HD void clear() const noexcept { *key() = no_fault; }
    [[nodiscard]] MULTIDRAFT_HD fault_key read() const noexcept { return *key(); }

    /// Atomic minimum with another key.
    MULTIDRAFT_HD void offer(fault_key found) const noexcept {
#if MULTIDRAFT_ON_DEVICE
        static_assert(sizeof(unsigned long long) == sizeof(fault_key));
        atomicMin(reinterpret_cast<unsigned long long*>(key()), static_cast<unsigned long long>(found));
#else
        std::atomic_ref<fault_key> const shared(*key());
        fault_key seen = shared.load(std::memory_order_relaxed);
        while (found < seen && !shared.compare_exchange_weak(seen, found, std::memory_order_relaxed)) {
        }
#endif
    }

    /// Rows of requests after the first one at fault do not matter. Up to this request offsets follow one another.
    MULTIDRAFT_HD void set_last_request(std::int32_t requests) const noexcept {
        fault_key const first = read();
        report_->request = first == no_fault ? requests - 1 : request_of(first);
    }
    [[nodiscard]] MULTIDRAFT_HD std::int32_t last_request() const noexcept { return report_->request; }

private:
    /// A signed and the unsigned type of the same size may share memory.
    [[nodiscard]] MULTIDRAFT_HD fault_key* key() const noexcept {
        return reinterpret_cast<fault_key*>(&report_->index);
    }

    validation_report* report_;
};

template <class Law, class Target, class Draft>
struct validation {
    drafted_batch<Law> drafts;
    tree_rules rules;
    Target target;
    Draft draft;
    request_batch requests;
    validation_report* report;
};

// The steps of a validation, for each of which a policy makes one call.

struct clear_fault {
    validation_report* report;
    MULTIDRAFT_HD void operator()(std::int64_t) const noexcept { first_fault(report).clear(); }
};

/// Checks request b and its nodes, entries of rows not included.
template <class Validation>
struct check_request_and_nodes {
    Validation all;
    MULTIDRAFT_HD void operator()(std::int64_t b) const noexcept {
        fault_key const found =
            fault_of_request(all.drafts, all.rules, all.target, all.draft, all.requests, static_cast<std::int32_t>(b));
        if (found != no_fault) first_fault(all.report).offer(found);
    }
};

struct find_last_request {
    validation_report* report;
    std::int32_t requests;
    MULTIDRAFT_HD void operator()(std::int64_t) const noexcept { first_fault(report).set_last_request(requests); }
};

/// Checks the target's rows of all nodes, then the draft's.
template <class Validation>
struct check_entries {
    Validation all;
    template <group G>
    MULTIDRAFT_HD void operator()(G const& g, std::int64_t k) const {
        tree_batch const& trees = all.drafts.trees;
        first_fault const first(all.report);
        bool const is_target = k < trees.nodes;
        std::int64_t const i = is_target ? k : k - trees.nodes;
        tree_batch matter = trees;
        matter.requests = first.last_request() + 1;
        std::int32_t const b = matter.request_of(i);
        if (!offsets_are_valid(trees, b) || i < trees.offsets[b] || i >= trees.offsets[b + 1]) return;
        auto const v = static_cast<node_id>(i - trees.offsets[b]);
        batch_fault found;
        if (is_target)
            found = check_row(g, trees, all.target, batch_argument::target, b, v);
        else if constexpr (row_batch<decltype(all.draft)>)
            found = check_row_and_draws(g, all.drafts, all.draft, batch_argument::draft, all.rules, b, v);
        if (g.leader() && found.what != batch_argument::nothing) first.offer(key_of(b, found));
    }
};

template <class Validation>
struct write_report {
    Validation all;
    template <group G>
    MULTIDRAFT_HD void operator()(G const& g, std::int64_t) const {
        fault_key const first = first_fault(all.report).read();
        g.barrier();  // all lanes have read what the leader writes over
        validation_report const found =
            report_with_arithmetic(report_of(g, all.drafts, all.rules, all.target, all.draft, all.requests, first));
        if (g.leader()) *all.report = found;
    }
};

}  // namespace detail

/// Checks the arguments of `verify_batch` and writes the first fault to `*report`, in memory of the machine that the
/// call runs on. Checked are offsets, seeds, positions, sampling parameters, parents, the shapes that the verifier
/// takes (`rules_of(verifier)`), tokens, the law's conditions on children (different tokens, how many are certain), and
/// the rows: the target's of every node, the draft's of nodes with children. Each child has mass in the draft's row of
/// its parent; if not, it was drawn with other sampling parameters, masks or bias. Where a child is absent because the
/// support ended, no token is left in that row. Rows below an absent child are not checked. If there is no fault, the
/// arithmetic of the code that verifies is tested (`check_arithmetic`), since no macro shows options such as nvcc's
/// -use_fast_math. `refuse_reported` throws the error for a report: it names the same argument, index and value
/// wherever the batch lay. In a launch synchronise, or fence the space, before the report is read.
///
/// Two passes over all rows, so it is meant for bringing an engine up, and for a request that got no token, not for
/// every step. Nothing is allocated. Throws `invalid_input` for missing arrays, with nothing launched; on a stream
/// returns `cudaErrorInvalidValue` for them, or the launches' error.
template <execution_policy P, draft_law Law, row_batch Target, draft_row_batch Draft>
[[nodiscard]] auto validate_batch(P const& policy, tree_rules const& rules, drafted_batch<Law> const& drafts,
                                  target_rows<Target> const& target, draft_rows<Draft> const& draft,
                                  request_batch const& requests, validation_report* report) {
    tree_batch const& trees = drafts.trees;
    using validation = detail::validation<Law, Target, Draft>;
    validation const all{drafts, rules, target.rows, draft.rows, requests, report};
    rows_of_size const rows{trees.requests > 0 ? target.rows.vocabulary : 1};
    return detail::checked(
        policy,
        [&] {
            detail::refuse_null(report, "report");
            detail::refuse_bad_arguments(drafts, target.rows, draft.rows, requests);
        },
        [&] {
            auto const check_entries = [&](auto const&) { return detail::check_entries<validation>{all}; };
            auto const write_report = [&](auto const&) { return detail::write_report<validation>{all}; };
            auto const clear = [&] { return for_each(policy, 1, detail::clear_fault{report}); };
            return detail::in_order<decltype(clear())>(
                clear,
                [&] { return for_each(policy, trees.requests, detail::check_request_and_nodes<validation>{all}); },
                [&] {
                    return for_each(policy, 1, detail::find_last_request{report, trees.requests});
                },
                [&] { return for_each_row(policy, (row_batch<Draft> ? 2 : 1) * trees.nodes, rows, check_entries); },
                [&] { return for_each_row(policy, 1, rows, write_report); });
        });
}

/// The same with the arguments of `verify_batch`: by the rules and the law of the verifier. What it returns is what the
/// call with rules returns for that policy.
template <class P, verify::verifier Verifier, draft_law Law, row_batch Target, draft_row_batch Draft>
[[nodiscard]] auto validate_batch(P&& policy, Verifier const& verifier, drafted_batch<Law> const& drafts,
                                  target_rows<Target> const& target, draft_rows<Draft> const& draft,
                                  request_batch const& requests, validation_report* report) {
    verify::require_law<Verifier, Law>();
    return validate_batch(policy, rules_of(verifier), drawn_by<typename Verifier::law>(drafts.trees), target, draft,
                          requests, report);
}

}  // namespace MULTIDRAFT_NAMESPACE
