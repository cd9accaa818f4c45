// Lane contexts of a warp and of a block on a device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "multidraft/cuda/lane_context.hpp"

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

}  // namespace MULTIDRAFT_NAMESPACE::cuda
