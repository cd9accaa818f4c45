// The groups of all threads of a block and of one warp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "multidraft/cuda/lane_context.hpp"
#include "multidraft/cuda/simt_group.hpp"

namespace MULTIDRAFT_NAMESPACE::cuda {

namespace detail {

/// Shuffles and ballots of a whole warp, and atomic addition in shared memory.
struct warp_exchange {
    template <class T>
    [[nodiscard]] __device__ __forceinline__ T shuffle_xor(T x, int mask) const {
        return __shfl_xor_sync(0xffffffffU, x, mask);
    }
    template <class T>
    [[nodiscard]] __device__ __forceinline__ T shuffle(T x, int from) const {
        return __shfl_sync(0xffffffffU, x, from);
    }
    [[nodiscard]] __device__ __forceinline__ std::uint32_t ballot(bool b) const {
        return __ballot_sync(0xffffffffU, b);
    }
    __device__ __forceinline__ std::uint32_t add(std::uint32_t* p, std::uint32_t x) const { return atomicAdd(p, x); }
};

}  // namespace detail

/// One warp of a block. The block's number of threads is a multiple of 32; its warps are independent.
struct warp_lanes : detail::warp_exchange {
    static constexpr int threads = warp_size;
    static constexpr rank_exchange exchange = rank_exchange::shared_memory;

    [[nodiscard]] __device__ __forceinline__ int thread() const { return static_cast<int>(threadIdx.x) % warp_size; }
    [[nodiscard]] __device__ __forceinline__ int rank() const { return 0; }
    [[nodiscard]] __device__ __forceinline__ int ranks() const { return 1; }
    __device__ __forceinline__ void sync() const { __syncwarp(); }
    __device__ __forceinline__ void sync_all() const { __syncwarp(); }
    template <class T>
    [[nodiscard]] __device__ __forceinline__ T* at_rank(T* p, int) const {
        return p;
    }
};

/// A whole block of `Threads` threads, launched as one dimension.
template <int Threads>
struct block_lanes : detail::warp_exchange {
    static constexpr int threads = Threads;
    static constexpr rank_exchange exchange = rank_exchange::shared_memory;

    [[nodiscard]] __device__ __forceinline__ int thread() const { return static_cast<int>(threadIdx.x); }
    [[nodiscard]] __device__ __forceinline__ int rank() const { return 0; }
    [[nodiscard]] __device__ __forceinline__ int ranks() const { return 1; }
    __device__ __forceinline__ void sync() const { __syncthreads(); }
    __device__ __forceinline__ void sync_all() const { __syncthreads(); }
    template <class T>
    [[nodiscard]] __device__ __forceinline__ T* at_rank(T* p, int) const {
        return p;
    }
};

/// A block of `Threads` threads, a multiple of 32 * `Split`. `Split` warps sum a chunk together; a thread reads `Wide`
/// entries at a time (see `simt_group`).
template <int Threads, int Split = 1, class Widest = float, int Wide = 1>
using block_group = simt_group<block_lanes<Threads>, Split, Widest, Wide>;

/// One warp that processes a row alone, for engines' kernels that assign one warp to each row. Every warp needs a
/// storage of its own (about 40 KB of shared memory).
template <class Widest = float>
using warp_group = simt_group<warp_lanes, 1, Widest>;

}  // namespace MULTIDRAFT_NAMESPACE::cuda
