// Compaction of the caches of a batch on a CUDA device, in place.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include "multidraft/batch/compact_caches.hpp"
#include "multidraft/core/config.hpp"
#include "multidraft/cuda/compact_pieces.hpp"
#include "multidraft/cuda/for_each_piece.cuh"
#include "multidraft/cuda/on.cuh"

namespace MULTIDRAFT_NAMESPACE::cuda {

/// The same as `compact_caches(cuda::on(stream), cache, kept)` (see `batch/compact_caches.hpp`).
template <class Cache>
[[nodiscard]] cudaError_t compact(cudaStream_t stream, Cache const& cache, kept_batch const& kept) {
    if (kept.requests == 0) return cudaSuccess;
    if (!multidraft::detail::is_valid_cache(cache)) return cudaErrorInvalidValue;
    return multidraft::detail::compact_by_pieces(on(stream), cache, kept);
}

}  // namespace MULTIDRAFT_NAMESPACE::cuda

namespace MULTIDRAFT_NAMESPACE {

/// Moves the entries of the kept nodes together, behind the root's, on a stream; see the overload for hosts. Returns
/// `cudaErrorInvalidValue` for invalid sizes. Neither allocates nor synchronises; may be captured in a graph.
template <class Cache>
[[nodiscard]] cudaError_t compact_caches(cuda::stream_policy const& policy, Cache const& cache,
                                         kept_batch const& kept) {
    return cuda::compact(policy.stream, cache, kept);
}

}  // namespace MULTIDRAFT_NAMESPACE
