// Memory that a batched call works in, lent by its caller.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "multidraft/core/config.hpp"
#include "multidraft/core/span.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// Bytes that a call may write to: as many as the size function of the same name says (`verify_workspace_size` for
/// `verify_batch`), of the machine that runs the call, aligned to 16 bytes, on CUDA to 256, as `cudaMalloc` does. Their
/// content means nothing before or after; calls that may run at the same time have a workspace each.
struct workspace {
    void* data = nullptr;
    std::size_t size = 0;

    workspace() = default;
    /// So many bytes from an address on, the caller's.
    constexpr workspace(void* bytes, std::size_t count) noexcept : data(bytes), size(count) {}
    /// The bytes of a span, the caller's.
    constexpr workspace(span<std::byte> bytes) noexcept  // NOLINT: a view of what is passed
        : data(bytes.data()), size(bytes.size()) {}
};

}  // namespace MULTIDRAFT_NAMESPACE
