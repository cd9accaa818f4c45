// The policy of batched calls on a CUDA device: a stream.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/cuda/launch_shape.hpp"
#include "multidraft/cuda/refusal.hpp"

namespace MULTIDRAFT_NAMESPACE::cuda {

/// A stream and launch options.
struct stream_policy {
    cudaStream_t stream = nullptr;
    launch_options options{};

    /// The error of a call with bad arguments; its text is kept for `last_refusal`.
    [[nodiscard]] static cudaError_t refused(invalid_input const& e) {
        detail::refusal_of_this_thread() = e.what();
        return cudaErrorInvalidValue;
    }
};

/// Runs `verify_batch`, `draft_batch` and `validate_batch` on a stream. All their pointers are then to device memory,
/// and they return the launch's error (`cudaError_t`); for `cudaErrorInvalidValue`, `last_refusal()` names the
/// argument. They do not allocate, synchronise or throw, and may be captured in a CUDA graph.
[[nodiscard]] inline stream_policy on(cudaStream_t stream, launch_options const& options = {}) noexcept {
    return {stream, options};
}

}  // namespace MULTIDRAFT_NAMESPACE::cuda
