// The group of many blocks of a grid, for a huge row or a device without clusters. They exchange data in device memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <cuda/atomic>

#include "multidraft/cuda/block_group.cuh"
#include "multidraft/cuda/launch_shape.hpp"
#include "multidraft/cuda/simt_group.hpp"

namespace MULTIDRAFT_NAMESPACE::cuda {

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

}  // namespace MULTIDRAFT_NAMESPACE::cuda
