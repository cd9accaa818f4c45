// A function called for each index of a range on a stream: for masks, links and outputs in engines' formats.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "multidraft/base/config.hpp"
#include "multidraft/cuda/launch.cuh"
#include "multidraft/cuda/on.cuh"

namespace MULTIDRAFT_NAMESPACE::cuda {

namespace detail {

inline constexpr int element_threads = 256;

/// Calls `body(k)` for k < count in a grid-stride loop.
template <class Body>
__global__ void __launch_bounds__(element_threads) for_each_kernel(std::int64_t count, Body body) {
    std::int64_t const step = static_cast<std::int64_t>(gridDim.x) * element_threads;
    for (std::int64_t k = static_cast<std::int64_t>(blockIdx.x) * element_threads + threadIdx.x; k < count; k += step)
        body(k);
}

template <class Body>
[[nodiscard]] cudaError_t for_each(std::int64_t count, cudaStream_t stream, Body const& body) {
    if (count < 0) return cudaErrorInvalidValue;
    std::int64_t const blocks = (count + element_threads - 1) / element_threads;
    constexpr std::int64_t most = 1 << 20;
    return launch_blocks(for_each_kernel<Body>, blocks < most ? blocks : most, element_threads, stream, count, body);
}

}  // namespace detail

/// Calls `body(k)` for 0 <= k < count on a stream, in one launch, and returns its error. With this header the functions
/// of `batch/` that write masks, links and outputs in engines' formats accept `cuda::on(stream)`. Neither allocates nor
/// synchronises; may be captured in a graph.
template <class Body>
[[nodiscard]] cudaError_t for_each_piece(stream_policy const& policy, std::int64_t count, Body const& body) {
    return detail::for_each(count, policy.stream, body);
}

}  // namespace MULTIDRAFT_NAMESPACE::cuda
