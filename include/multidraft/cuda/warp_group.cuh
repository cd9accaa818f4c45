// The group of one warp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "multidraft/cuda/block_lanes.cuh"
#include "multidraft/cuda/simt_group.hpp"

namespace MULTIDRAFT_NAMESPACE::cuda {

/// One warp that processes a row alone, for engines' kernels that assign one warp to each row. Every warp needs a
/// storage of its own (about 40 KB of shared memory).
template <class Widest = float>
using warp_group = simt_group<warp_lanes, 1, Widest>;

}  // namespace MULTIDRAFT_NAMESPACE::cuda
