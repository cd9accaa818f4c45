// Where the requests of a batch run on a host: threads of the library's pool or of an engine's own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <concepts>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/group/host_group.hpp"

namespace MULTIDRAFT_NAMESPACE {

namespace detail {

struct any_task {
    void operator()(int) const noexcept {}
};

}  // namespace detail

/// Where a batched call runs on a host.
///
/// - `policy.concurrency()`: how many tasks may run at the same time, at least 1. It divides the workspace.
/// - `policy.parallel_for(count, task)`: calls `task(k)` once for every k < count, on any threads, in any order,
///   concurrently or not, and returns when all have returned. count is at most `concurrency()`.
///
/// A batched call needs nothing else. Its tasks take requests from a shared counter until none is left, so a pool need
/// not know how many there are or how long each takes, and no decision depends on which task took which request.
template <class P>
concept host_policy = requires(P const& policy, int count, detail::any_task const& task) {
    { policy.concurrency() } -> std::convertible_to<int>;
    policy.parallel_for(count, task);
};

/// A pool of threads, for hosts that have none: `host_threads(4)` starts three, and the caller's is the fourth. They
/// sleep between calls and end with the object. Only the constructor allocates.
///
/// One call at a time: callers from several threads wait for one another, and a task must not call its own pool. An
/// exception of a task is rethrown to the caller when all tasks have ended.
class host_threads {
public:
    /// Throws `invalid_input` for less than one thread, and the exception of `std::thread` if the system cannot start
    /// one.
    explicit host_threads(int threads) {
        if (threads < 1) refuse("threads", threads, "work is done by one thread or more");
        workers_.reserve(static_cast<std::size_t>(threads) - 1);
        try {
            for (int k = 1; k < threads; ++k) workers_.emplace_back([this] { work(); });
        } catch (...) {
            end();
            throw;
        }
    }
    host_threads(host_threads const&) = delete;
    host_threads& operator=(host_threads const&) = delete;
    ~host_threads() { end(); }

    /// How many tasks run at a time.
    [[nodiscard]] int concurrency() const noexcept { return static_cast<int>(workers_.size()) + 1; }

    /// Calls `task(k)` for k < count. See `host_policy`; here count may be any number.
    template <class Task>
    void parallel_for(int count, Task const& task) const {
        if (count < 1) return;
        if (count == 1 || workers_.empty()) {
            for (int k = 0; k < count; ++k) task(k);
            return;
        }
        std::scoped_lock const one_call(calls_);
        {
            std::scoped_lock const lock(mutex_);
            call_.task = &task;
            call_.run = [](void const* what, int k) { (*static_cast<Task const*>(what))(k); };
            call_.next = 0;
            call_.count = count;
            call_.unfinished = count;
            call_.failure = nullptr;
        }
        // Wakes at most as many threads as there are tasks.
        if (count > concurrency() - 1)
            posted_.notify_all();
        else
            for (int k = 1; k < count; ++k) posted_.notify_one();
        std::unique_lock lock(mutex_);
        take_tasks(lock);
        finished_.wait(lock, [this] { return call_.unfinished == 0; });
        if (call_.failure != nullptr) std::rethrow_exception(std::exchange(call_.failure, nullptr));
    }

private:
    /// The call in progress: its function, and what is left of its tasks.
    struct call {
        void (*run)(void const*, int) = nullptr;
        void const* task = nullptr;
        int next = 0;
        int count = 0;
        int unfinished = 0;
        std::exception_ptr failure;
    };

    void work() const {
        std::unique_lock lock(mutex_);
        for (;;) {
            posted_.wait(lock, [this] { return ending_ || call_.next < call_.count; });
            if (ending_) return;
            take_tasks(lock);
        }
    }

    /// Runs tasks until none is left to start. The lock is released while a task runs.
    void take_tasks(std::unique_lock<std::mutex>& lock) const {
        while (call_.next < call_.count) {
            int const k = call_.next++;
            auto const run = call_.run;
            void const* const task = call_.task;
            lock.unlock();
            std::exception_ptr failure;
            try {
                run(task, k);
            } catch (...) {
                failure = std::current_exception();
            }
            lock.lock();
            if (failure != nullptr && call_.failure == nullptr) call_.failure = failure;
            if (--call_.unfinished == 0) finished_.notify_one();
        }
    }

    void end() noexcept {
        {
            std::scoped_lock const lock(mutex_);
            ending_ = true;
        }
        posted_.notify_all();
        for (std::thread& worker : workers_) worker.join();
    }

    std::vector<std::thread> workers_;
    mutable std::mutex calls_;  ///< held for a whole call
    mutable std::mutex mutex_;  ///< protects what follows
    mutable std::condition_variable posted_;
    mutable std::condition_variable finished_;
    mutable call call_;
    bool ending_ = false;
};

/// An engine's own pool: `host_tasks(n, [&](int count, auto const& task) { pool.for_each(count, task); })` runs calls
/// on it, n tasks at a time; see `host_policy` for the function. Avoids two pools that compete for the same cores.
template <class ParallelFor>
requires std::invocable<ParallelFor const&, int, detail::any_task const&>
class host_tasks {
public:
    /// Throws `invalid_input` for less than one task at a time.
    host_tasks(int concurrency, ParallelFor parallel_for)
        : parallel_for_(std::move(parallel_for)), concurrency_(concurrency) {
        if (concurrency < 1) refuse("concurrency", concurrency, "work is done by one task or more");
    }

    /// How many tasks run at a time.
    [[nodiscard]] int concurrency() const noexcept { return concurrency_; }
    /// Calls `task(k)` for 0 <= k < count, and returns when all are done.
    template <class Task>
    void parallel_for(int count, Task const& task) const {
        parallel_for_(count, task);
    }

private:
    ParallelFor parallel_for_;
    int concurrency_;
};

static_assert(host_policy<host_threads>);

}  // namespace MULTIDRAFT_NAMESPACE

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
    std::atomic<std::int64_t> next{0};  // ends beyond `parts`
    policy.parallel_for(tasks_of(policy, parts), [&](int task) {
        for (std::int64_t k = next.fetch_add(1, std::memory_order_relaxed); k < parts;
             k = next.fetch_add(1, std::memory_order_relaxed))
            body(static_cast<std::int32_t>(k), task);
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
