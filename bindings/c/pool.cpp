// SPDX-License-Identifier: Apache-2.0
#include "pool.hpp"

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "errors.hpp"
#include "multidraft.h"
#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/batch/host_threads.hpp"

namespace MULTIDRAFT_NAMESPACE::c_interface {
namespace {

class own_pool final : public md_pool {
public:
    explicit own_pool(int threads) : threads_(threads) {}

    [[nodiscard]] int concurrency() const noexcept override { return threads_.concurrency(); }
    void run(int count, void const* task, call call_task) const override {
        threads_.parallel_for(count, [task, call_task](int k) { call_task(task, k); });
    }

private:
    host_threads threads_;
};

class engine_pool final : public md_pool {
public:
    engine_pool(int concurrency, md_parallel_for parallel_for, void* engine)
        : parallel_for_(parallel_for), engine_(engine), concurrency_(concurrency) {}

    [[nodiscard]] int concurrency() const noexcept override { return concurrency_; }
    void run(int count, void const* task, call call_task) const override {
        running r{task, call_task, {}, nullptr, {0}};
        parallel_for_(engine_, count, &run_one, &r);
        if (r.failure != nullptr) std::rethrow_exception(r.failure);
        if (int const done = r.done; done != count)
            throw system_failure("the engine's parallel_for returned after " + std::to_string(done) + " of " +
                                 std::to_string(count) + " tasks");
    }

private:
    struct running {
        void const* task;
        call call_task;
        std::mutex mutex;
        std::exception_ptr failure;
        std::atomic<int> done;  ///< tasks
    };

    /// An exception is rethrown only after the engine's frames, which may be C, have returned.
    static void run_one(void* what, std::int32_t k) {
        auto& r = *static_cast<running*>(what);
        try {
            r.call_task(r.task, k);
        } catch (...) {
            std::scoped_lock const lock(r.mutex);
            if (r.failure == nullptr) r.failure = std::current_exception();
        }
        ++r.done;
    }

    md_parallel_for parallel_for_;
    void* engine_;
    int concurrency_;
};

constexpr std::int32_t most_threads = 4096;

}  // namespace
}  // namespace MULTIDRAFT_NAMESPACE::c_interface

using namespace multidraft;
using namespace multidraft::c_interface;

md_status md_make_pool(std::int32_t threads, md_pool** pool) {
    return guarded([&] {
        refuse_null(pool, "pool");
        if (threads > most_threads) refuse("threads", threads, "a pool has up to 4096 threads");
        *pool = std::make_unique<own_pool>(threads).release();
    });
}

md_status md_make_pool_over(std::int32_t concurrency, md_parallel_for parallel_for, void* engine, md_pool** pool) {
    return guarded([&] {
        refuse_null(pool, "pool");
        if (parallel_for == nullptr) refuse("parallel_for", "null", "it is called");
        if (concurrency < 1) refuse("concurrency", concurrency, "work is done by one task or more");
        *pool = std::make_unique<engine_pool>(concurrency, parallel_for, engine).release();
    });
}

void md_free_pool(md_pool* pool) { delete pool; }
