// Where a batched call runs on a device: on a stream.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include "multidraft/core/config.hpp"
#include "multidraft/cuda/launch_shape.hpp"

namespace MULTIDRAFT_NAMESPACE::cuda {

/// A stream, and what its caller decides about launches there.
struct stream_policy {
    cudaStream_t stream = nullptr;
    launch_options options{};
};

/// Has `verify_batch`, `draft_batch` and `validate_batch` run on a stream: all their pointers are then to device
/// memory, and they return the launch's error. Nothing allocates, synchronises or throws; all of it may be captured in
/// a graph.
[[nodiscard]] inline stream_policy on(cudaStream_t stream, launch_options const& options = {}) noexcept {
    return {stream, options};
}

}  // namespace MULTIDRAFT_NAMESPACE::cuda
