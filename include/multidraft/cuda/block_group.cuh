// The group of all threads of a block.
#pragma once

#include "multidraft/cuda/block_lanes.cuh"
#include "multidraft/cuda/simt_group.hpp"

namespace multidraft::cuda {

/// A block of `Threads` threads, a multiple of 32 * `Split`; `Split` warps sum a chunk together (see `simt_group`).
template <int Threads, int Split = 1, class Widest = float>
using block_group = simt_group<block_lanes<Threads>, Split, Widest>;

}  // namespace multidraft::cuda
