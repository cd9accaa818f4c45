// The groups of the blocks of a cluster, of a grid, and of either as the launch decides.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cooperative_groups.h>
#include <cuda_runtime_api.h>
#include <cstddef>
#include <cstdint>
#include <cuda/atomic>

#include "multidraft/cuda/block_group.cuh"
#include "multidraft/cuda/launch_shape.hpp"
#include "multidraft/cuda/simt_group.hpp"

// Whether this code can query its cluster: device code for compute capability 9.0 or higher. Other environments with
// clusters define it before including this header.
#if !defined(MULTIDRAFT_HAS_CLUSTERS)
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define MULTIDRAFT_HAS_CLUSTERS 1
#else
#define MULTIDRAFT_HAS_CLUSTERS 0
#endif
#endif

namespace MULTIDRAFT_NAMESPACE::cuda {

/// A cluster of up to `max_ranks` blocks of `Threads` threads each; a block launched without a cluster is a cluster of
/// one. Below compute capability 9.0 there are no clusters, and this equals `block_lanes`.
template <int Threads>
class cluster_lanes : public detail::warp_exchange {
public:
    static constexpr int threads = Threads;
    static constexpr rank_exchange exchange = rank_exchange::shared_memory;

    __device__ __forceinline__ cluster_lanes() {
#if MULTIDRAFT_HAS_CLUSTERS
        auto const cluster = cooperative_groups::this_cluster();
        rank_ = static_cast<int>(cluster.block_rank());
        ranks_ = static_cast<int>(cluster.num_blocks());
#endif
    }

    [[nodiscard]] __device__ __forceinline__ int thread() const { return static_cast<int>(threadIdx.x); }
    [[nodiscard]] __device__ __forceinline__ int rank() const { return rank_; }
    [[nodiscard]] __device__ __forceinline__ int ranks() const { return ranks_; }
    __device__ __forceinline__ void sync() const { __syncthreads(); }
    __device__ __forceinline__ void sync_all() const {
#if MULTIDRAFT_HAS_CLUSTERS
        if (ranks_ > 1) {
            cooperative_groups::this_cluster().sync();
            return;
        }
#endif
        __syncthreads();
    }
    template <class T>
    [[nodiscard]] __device__ __forceinline__ T* at_rank(T* p, [[maybe_unused]] int r) const {
#if MULTIDRAFT_HAS_CLUSTERS
        if (ranks_ > 1) return cooperative_groups::this_cluster().map_shared_rank(p, static_cast<unsigned>(r));
#endif
        return p;
    }

private:
    int rank_ = 0;
    int ranks_ = 1;
};

/// The group of a cluster (see `cluster_lanes`, and `simt_group` for the parameters): for few long rows, which one
/// multiprocessor would read too slowly.
template <int Threads, int Split = 1, class Widest = float, int Wide = 1>
using cluster_group = simt_group<cluster_lanes<Threads>, Split, Widest, Wide>;

/// The device memory through which the blocks of a group communicate: a counter of arrivals and two arrays of counters,
/// all 0 when the launch begins, and a copy ("mirror") of the group's shared storage.
template <class Storage>
struct grid_memory {
    static constexpr std::size_t line = 128;
    static constexpr std::size_t cleared_bytes = line + 2 * Storage::count_capacity * sizeof(std::uint64_t);
    static constexpr std::size_t mirror_bytes = (sizeof(Storage) + line - 1) / line * line;

    std::byte* cleared = nullptr;
    std::byte* mirrors = nullptr;

    /// Bytes for `groups` groups. The memory is aligned to 128 bytes.
    [[nodiscard]] static constexpr std::size_t bytes(std::int32_t groups) noexcept {
        return static_cast<std::size_t>(groups) * (cleared_bytes + mirror_bytes);
    }
    /// Divides the `bytes(groups)` bytes at `memory`.
    [[nodiscard]] static grid_memory at(void* memory, std::int32_t groups) noexcept {
        auto* const begin = static_cast<std::byte*>(memory);
        return {begin, begin + static_cast<std::size_t>(groups) * cleared_bytes};
    }
    /// Sets the counters to 0 before a launch, in stream order.
    [[nodiscard]] cudaError_t clear(std::int32_t groups, cudaStream_t stream) const {
        return cudaMemsetAsync(cleared, 0, static_cast<std::size_t>(groups) * cleared_bytes, stream);
    }
};

/// `ranks` blocks of a cooperative launch, `Threads` threads each: this is block `rank` of group `group`. All blocks of
/// the grid are resident at once, so they may wait for each other; groups are independent.
template <int Threads>
class grid_lanes : public detail::warp_exchange {
public:
    static constexpr int threads = Threads;
    static constexpr rank_exchange exchange = rank_exchange::global_memory;
    static constexpr int max_grid_ranks = cuda::max_grid_ranks < Threads / 2 ? cuda::max_grid_ranks : Threads / 2;

    /// The lanes of one block: `rank` of the `ranks` blocks of a group.
    template <class Storage>
    __device__ __forceinline__ grid_lanes(int group, int rank, int ranks, Storage& shared,
                                          grid_memory<Storage> const& memory)
        : shared_(reinterpret_cast<std::byte*>(&shared)),
          cleared_(memory.cleared + static_cast<std::size_t>(group) * grid_memory<Storage>::cleared_bytes),
          mirror_(memory.mirrors + static_cast<std::size_t>(group) * grid_memory<Storage>::mirror_bytes),
          capacity_(static_cast<unsigned>(Storage::count_capacity)),
          rank_(rank),
          ranks_(ranks) {}

    [[nodiscard]] __device__ __forceinline__ int thread() const { return static_cast<int>(threadIdx.x); }
    [[nodiscard]] __device__ __forceinline__ int rank() const { return rank_; }
    [[nodiscard]] __device__ __forceinline__ int ranks() const { return ranks_; }
    __device__ __forceinline__ void sync() const { __syncthreads(); }

    /// Every block increments the counter of arrivals, which is never reset during a launch, and waits for all others.
    __device__ __noinline__ void sync_all() const {
        expected_ += static_cast<unsigned>(ranks_);
        __syncthreads();
        if (threadIdx.x == 0) {
            ::cuda::atomic_ref<unsigned, ::cuda::thread_scope_device> const arrived(
                *reinterpret_cast<unsigned*>(cleared_));
            arrived.fetch_add(1U, ::cuda::memory_order_acq_rel);
            while (static_cast<int>(arrived.load(::cuda::memory_order_acquire) - expected_) < 0) {
            }
        }
        __syncthreads();
    }
    template <class T>
    [[nodiscard]] __device__ __forceinline__ T* mirror(T* p) const {
        return reinterpret_cast<T*>(mirror_ + (reinterpret_cast<std::byte*>(p) - shared_));
    }
    [[nodiscard]] __device__ __forceinline__ std::uint64_t* accumulators(unsigned turn) const {
        return reinterpret_cast<std::uint64_t*>(cleared_ + 128) + turn * capacity_;
    }
    __device__ __forceinline__ void add_to(std::uint64_t* p, std::uint64_t x) const {
        static_assert(sizeof(unsigned long long) == sizeof(std::uint64_t));
        atomicAdd(reinterpret_cast<unsigned long long*>(p), static_cast<unsigned long long>(x));
    }

private:
    std::byte* shared_;
    std::byte* cleared_;
    std::byte* mirror_;
    unsigned capacity_;
    int rank_;
    int ranks_;
    mutable unsigned expected_ = 0;
};

/// The group of many blocks of a grid (see `grid_lanes`, and `simt_group` for the parameters): for one row of millions
/// of entries, or one request on a device without clusters.
template <int Threads, int Split = 1, class Widest = float, int Wide = 1>
using grid_group = simt_group<grid_lanes<Threads>, Split, Widest, Wide>;

/// Where the blocks of a grid-wide launch exchange data, and how many blocks a group has. The default: a launch of
/// blocks or clusters.
template <class Storage>
struct grid_exchange {
    grid_memory<Storage> memory{};
    int ranks = 1;
};

/// `grid_lanes` where the launch has memory for the exchange, else `cluster_lanes`.
template <int Threads>
class device_lanes : public grid_lanes<Threads> {
public:
    static constexpr rank_exchange exchange = rank_exchange::either;

    /// The lanes of this launch. `shared` is the block's storage.
    template <class Storage>
    __device__ __forceinline__ device_lanes(Storage& shared, grid_exchange<Storage> const& grid)
        : device_lanes(shared, grid, cluster_lanes<Threads>()) {}

    /// Whether blocks exchange data in the launch's memory (a grid), not in each other's shared memory.
    [[nodiscard]] __device__ __forceinline__ bool in_memory() const { return in_memory_; }
    __device__ __forceinline__ void sync_all() const {
        if (in_memory_)
            grid_lanes<Threads>::sync_all();
        else
            cluster_.sync_all();
    }
    template <class T>
    [[nodiscard]] __device__ __forceinline__ T* at_rank(T* p, int r) const {
        return cluster_.at_rank(p, r);
    }

private:
    template <class Storage>
    __device__ __forceinline__ device_lanes(Storage& shared, grid_exchange<Storage> const& grid,
                                            cluster_lanes<Threads> const& cluster)
        : grid_lanes<Threads>(grid.ranks > 1 ? static_cast<int>(blockIdx.x) / grid.ranks : 0,
                              grid.ranks > 1 ? static_cast<int>(blockIdx.x) % grid.ranks : cluster.rank(),
                              grid.ranks > 1 ? grid.ranks : cluster.ranks(), shared, grid.memory),
          cluster_(cluster),
          in_memory_(grid.ranks > 1) {}

    cluster_lanes<Threads> cluster_;
    bool in_memory_;
};

/// The group of a cluster or of many blocks of a grid (see `device_lanes`, and `simt_group` for the parameters).
template <int Threads, int Split = 1, class Widest = float, int Wide = 1>
using device_group = simt_group<device_lanes<Threads>, Split, Widest, Wide>;

}  // namespace MULTIDRAFT_NAMESPACE::cuda
