// What batched calls on host threads share: their group, requests dealt out to tasks, and the checks before anything
// is written.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "multidraft/batch/detail/check_batch.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/batch/request_batch.hpp"
#include "multidraft/batch/target_and_draft.hpp"
#include "multidraft/batch/tree_batch.hpp"
#include "multidraft/batch/validation.hpp"
#include "multidraft/core/config.hpp"
#include "multidraft/core/error.hpp"
#include "multidraft/core/host_group.hpp"
#include "multidraft/draft/law.hpp"
#include "multidraft/verify/no_draft_rows.hpp"

namespace MULTIDRAFT_NAMESPACE::detail {

/// The host group inside of a batched call: a row that is no distribution is the fault of one request, and the others
/// get their verdicts.
struct host_batch_group : host_group {
    static constexpr bool throws = false;
};

/// Tasks that a call of so many pieces is divided into.
template <host_policy P>
[[nodiscard]] int tasks_of(P const& policy, std::int32_t pieces) {
    int const most = static_cast<int>(policy.concurrency());
    return pieces < most ? pieces : most;
}

/// Calls `body(piece, task)` for every piece, each task taking the next one when it is done with one. No two calls at
/// the same time have one task.
template <host_policy P, class Body>
void deal_out(P const& policy, std::int32_t pieces, Body const& body) {
    if (pieces < 1) return;
    std::atomic<std::int32_t> next{0};
    policy.parallel_for(tasks_of(policy, pieces), [&](int task) {
        for (std::int32_t k = next.fetch_add(1, std::memory_order_relaxed); k < pieces;
             k = next.fetch_add(1, std::memory_order_relaxed))
            body(k, task);
    });
}

/// Lowers a number that several tasks share, to `value` at most.
template <class T>
void lower(std::atomic<T>& shared, T value) noexcept {
    T seen = shared.load(std::memory_order_relaxed);
    while (value < seen && !shared.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
    }
}

/// Raises it, to `value` at least.
template <class T>
void raise(std::atomic<T>& shared, T value) noexcept {
    T seen = shared.load(std::memory_order_relaxed);
    while (seen < value && !shared.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
    }
}

template <class T>
void refuse_null(T const* pointer, char const* name) {
    if (pointer == nullptr) refuse(name, "null", "this array is read or written");
}

template <class Rows>
void refuse_bad_extents(Rows const& rows, char const* name) {
    validate_row_size(index_t{rows.vocabulary}, name, ".vocabulary");
    if constexpr (requires { rows.data; }) refuse_null(rows.data, (std::string(name) + ".data").c_str());
    if constexpr (requires { rows.states; }) refuse_null(rows.states, (std::string(name) + ".states").c_str());
}

/// Refuses what no request has to be looked at for.
template <draft_law Law, class Target, class Draft>
void refuse_bad_arguments(drafted_batch<Law> const& drafts, Target const& target, Draft const& draft,
                          request_batch const& requests) {
    tree_batch const& trees = drafts.trees;
    if (trees.requests < 0) refuse("trees.requests", trees.requests, "a batch has 0 requests or more");
    if (trees.requests == 0) {
        if (trees.nodes != 0) refuse("trees.nodes", trees.nodes, "a batch of no requests has no nodes");
        return;
    }
    refuse_null(trees.offsets, "trees.offsets");
    refuse_null(trees.parents, "trees.parents");
    refuse_null(trees.tokens, "trees.tokens");
    if constexpr (counts_certain<Law>) refuse_null(trees.certain, "trees.certain");
    refuse_null(requests.seeds, "requests.seeds");
    refuse_null(requests.positions, "requests.positions");
    refuse_bad_extents(target, "target");
    if constexpr (!std::is_same_v<Draft, verify::no_draft_rows>) {
        refuse_bad_extents(draft, "draft");
        if (draft.vocabulary != target.vocabulary)
            refuse("draft.vocabulary", draft.vocabulary, "draft and target have one vocabulary");
    }
}

/// The first fault of a request but for the entries of its rows.
template <draft_law Law, class Target, class Draft>
[[nodiscard]] fault_key fault_of_request(drafted_batch<Law> const& drafts, Target const& target, Draft const& draft,
                                         request_batch const& requests, std::int32_t b) {
    tree_batch const& trees = drafts.trees;
    fault_key first = key_of(b, check_request(trees, requests, target, draft, b));
    if (!offsets_are_valid(trees, b)) return first;
    auto const offer = [&](batch_fault const& f) {
        fault_key const here = key_of(b, f);
        first = here < first ? here : first;
    };
    for (node_id v = 0; v < trees.size(b); ++v) {
        offer(check_node(drafts, target.vocabulary, b, v));
        offer(check_row_index(trees, target, batch_argument::target, b, v));
        offer(check_row_index(trees, draft, batch_argument::draft, b, v));
    }
    return first;
}

}  // namespace MULTIDRAFT_NAMESPACE::detail
