// Common parts of batched calls on host threads: their group, the distribution of requests to tasks, and the checks
// before anything is written.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

#include "multidraft/base/config.hpp"
#include "multidraft/batch/detail/check_batch.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/batch/request_batch.hpp"
#include "multidraft/batch/tree_batch.hpp"
#include "multidraft/batch/tree_rules.hpp"
#include "multidraft/batch/validation.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/law/law.hpp"

namespace MULTIDRAFT_NAMESPACE::detail {

/// The host group inside a batched call, which does not throw: a row that is not a distribution affects one request
/// only.
struct host_batch_group : host_group {
    static constexpr bool throws = false;
};

/// The number of tasks for a call of that many pieces.
template <host_policy P>
[[nodiscard]] int tasks_of(P const& policy, std::int32_t pieces) {
    int const most = static_cast<int>(policy.concurrency());
    return pieces < most ? pieces : most;
}

/// Calls `body(piece, task)` for every piece; each task takes the next piece when it is done with one. Concurrent calls
/// have different tasks.
template <host_policy P, class Body>
void parallel_for(P const& policy, std::int32_t pieces, Body const& body) {
    if (pieces < 1) return;
    std::atomic<std::int32_t> next{0};
    policy.parallel_for(tasks_of(policy, pieces), [&](int task) {
        for (std::int32_t k = next.fetch_add(1, std::memory_order_relaxed); k < pieces;
             k = next.fetch_add(1, std::memory_order_relaxed))
            body(k, task);
    });
}

/// Atomic minimum with `value`.
template <class T>
void lower(std::atomic<T>& shared, T value) noexcept {
    T seen = shared.load(std::memory_order_relaxed);
    while (value < seen && !shared.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
    }
}

/// Atomic maximum with `value`.
template <class T>
void raise(std::atomic<T>& shared, T value) noexcept {
    T seen = shared.load(std::memory_order_relaxed);
    while (seen < value && !shared.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
    }
}

/// The first fault of a request, entries of rows not included.
template <draft_law Law, class Target, class Draft>
[[nodiscard]] fault_key fault_of_request(drafted_batch<Law> const& drafts, tree_rules const& rules,
                                         Target const& target, Draft const& draft, request_batch const& requests,
                                         std::int32_t b) {
    tree_batch const& trees = drafts.trees;
    fault_key first = key_of(b, check_request(trees, requests, target, draft, b));
    if (!offsets_are_valid(trees, b)) return first;
    auto const offer = [&](batch_fault const& f) {
        fault_key const here = key_of(b, f);
        first = here < first ? here : first;
    };
    offer(check_shape(trees, rules, b));
    for (node_id v = 0; v < trees.size(b); ++v) {
        offer(check_node(drafts, rules, target.vocabulary, b, v));
        offer(check_row_index(trees, target, batch_argument::target, b, v));
        offer(check_row_index(trees, draft, batch_argument::draft, b, v));
    }
    return first;
}

}  // namespace MULTIDRAFT_NAMESPACE::detail
