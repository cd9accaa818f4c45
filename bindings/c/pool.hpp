// Where calls run: the library's own pool, an engine's pool, or the calling thread.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "multidraft/base/config.hpp"
#include "multidraft/batch/host_threads.hpp"

/// The base of both kinds of pools.
struct md_pool {
    using call = void (*)(void const* task, int k);

    md_pool() = default;
    md_pool(md_pool const&) = delete;
    md_pool& operator=(md_pool const&) = delete;
    virtual ~md_pool() = default;

    [[nodiscard]] virtual int concurrency() const noexcept = 0;
    virtual void run(int count, void const* task, call call_task) const = 0;
};

namespace MULTIDRAFT_NAMESPACE::c_interface {

/// The only host policy of the library, so that kernels are compiled once. Without a pool calls run on the calling
/// thread.
class pool_policy {
public:
    explicit pool_policy(md_pool const* pool) noexcept : pool_(pool) {}

    [[nodiscard]] int concurrency() const noexcept { return pool_ == nullptr ? 1 : pool_->concurrency(); }

    template <class Task>
    void parallel_for(int count, Task const& task) const {
        if (pool_ == nullptr)
            for (int k = 0; k < count; ++k) task(k);
        else
            pool_->run(count, &task, [](void const* what, int k) { (*static_cast<Task const*>(what))(k); });
    }

private:
    md_pool const* pool_;
};

static_assert(host_policy<pool_policy>);

}  // namespace MULTIDRAFT_NAMESPACE::c_interface
