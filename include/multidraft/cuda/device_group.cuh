// The group of the blocks of a cluster or of a grid, as the launch decides: one kernel serves both.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "multidraft/cuda/block_group.cuh"
#include "multidraft/cuda/cluster_group.cuh"
#include "multidraft/cuda/grid_group.cuh"
#include "multidraft/cuda/simt_group.hpp"

namespace MULTIDRAFT_NAMESPACE::cuda {

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
