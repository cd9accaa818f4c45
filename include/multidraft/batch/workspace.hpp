// Memory provided by the caller for a batched call.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// Bytes that a call may write to: as many as the size function of the call returns (`verify_workspace_size` for
/// `verify_batch`), in memory of the machine that runs it, aligned to 16 bytes, on CUDA to 256, as `cudaMalloc` does.
/// Their content is unspecified before and after; calls that may run concurrently need separate workspaces.
struct workspace {
    void* data = nullptr;
    std::size_t size = 0;

    workspace() = default;
    /// `count` bytes of the caller's memory.
    constexpr workspace(void* bytes, std::size_t count) noexcept : data(bytes), size(count) {}
    /// The bytes of a span of the caller's memory.
    constexpr workspace(span<std::byte> bytes) noexcept  // NOLINT: a view of what is passed
        : data(bytes.data()), size(bytes.size()) {}
};

}  // namespace MULTIDRAFT_NAMESPACE
