// Compaction of the caches of a batch on a CUDA device, in place.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include "multidraft/base/config.hpp"
#include "multidraft/batch/compact_caches.hpp"
#include "multidraft/cuda/compact_pieces.hpp"
#include "multidraft/cuda/for_each_piece.cuh"
#include "multidraft/cuda/on.cuh"

namespace MULTIDRAFT_NAMESPACE::cuda {

/// `compact_caches(cuda::on(stream), cache, kept)` (see `batch/compact_caches.hpp`): neither allocates nor
/// synchronises; may be captured in a graph.
template <class Cache>
[[nodiscard]] cudaError_t compact(cudaStream_t stream, Cache const& cache, kept_batch const& kept) {
    return compact_caches(on(stream), cache, kept);
}

}  // namespace MULTIDRAFT_NAMESPACE::cuda
