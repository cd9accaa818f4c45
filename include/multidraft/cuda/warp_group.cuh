// The group of one warp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "multidraft/cuda/block_lanes.cuh"
#include "multidraft/cuda/simt_group.hpp"

namespace MULTIDRAFT_NAMESPACE::cuda {

/// One warp that walks a row alone, for kernels of an engine that give each row a warp. Its storage (about 40 KB of
/// shared memory) is its own.
template <class Widest = float>
using warp_group = simt_group<warp_lanes, 1, Widest>;

}  // namespace MULTIDRAFT_NAMESPACE::cuda
