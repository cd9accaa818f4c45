// The group of a thread block cluster: blocks on neighbouring multiprocessors that read each other's shared memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cooperative_groups.h>

#include "multidraft/cuda/block_group.cuh"
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

}  // namespace MULTIDRAFT_NAMESPACE::cuda
