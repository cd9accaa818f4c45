// Common parts of batched calls on host threads: their group, and the distribution of work to tasks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

#include "multidraft/base/config.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/group/host_group.hpp"

namespace MULTIDRAFT_NAMESPACE::detail {

/// The host group inside a batched call, which does not throw: a row that is not a distribution affects one request
/// only.
struct host_batch_group : host_group {
    static constexpr bool throws = false;
};

/// The number of tasks for a call of that many parts.
template <host_policy P>
[[nodiscard]] int tasks_of(P const& policy, std::int32_t parts) {
    int const most = static_cast<int>(policy.concurrency());
    return parts < most ? parts : most;
}

/// Calls `body(part, task)` for every part; each task takes the next part when it is done with one. Concurrent calls
/// have different tasks.
template <host_policy P, class Body>
void parallel_for(P const& policy, std::int32_t parts, Body const& body) {
    if (parts < 1) return;
    std::atomic<std::int32_t> next{0};
    policy.parallel_for(tasks_of(policy, parts), [&](int task) {
        for (std::int32_t k = next.fetch_add(1, std::memory_order_relaxed); k < parts;
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

}  // namespace MULTIDRAFT_NAMESPACE::detail
