// The group of all threads of a block.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "multidraft/cuda/block_lanes.cuh"
#include "multidraft/cuda/simt_group.hpp"

namespace MULTIDRAFT_NAMESPACE::cuda {

/// A block of `Threads` threads, a multiple of 32 * `Split`. `Split` warps sum a chunk together; a thread reads `Wide`
/// entries at a time (see `simt_group`).
template <int Threads, int Split = 1, class Widest = float, int Wide = 1>
using block_group = simt_group<block_lanes<Threads>, Split, Widest, Wide>;

}  // namespace MULTIDRAFT_NAMESPACE::cuda
