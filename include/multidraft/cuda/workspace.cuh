// The layout of a launch's workspace: scratch of each request, then memory for the exchange between blocks of a grid.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "multidraft/cuda/grid_group.cuh"
#include "multidraft/cuda/launch_shape.hpp"

namespace MULTIDRAFT_NAMESPACE::cuda::detail {

/// The group of grid-wide launches, and its shared storage.
template <int Wide>
using wide_group = grid_group<row_threads, short_split, float, Wide>;
using wide_storage = wide_group<1>::storage;

[[nodiscard]] constexpr std::size_t scratch_size(std::int32_t requests, std::size_t each) noexcept {
    constexpr std::size_t line = grid_memory<wide_storage>::line;
    return (static_cast<std::size_t>(requests) * each + line - 1) / line * line;
}

/// Bytes of workspace for `requests` requests with `each` bytes of scratch. Memory for a grid-wide launch is always
/// included, so that a workspace for a large batch is enough for any smaller one.
[[nodiscard]] constexpr std::size_t workspace_size(std::int32_t requests, std::size_t each) noexcept {
    return scratch_size(requests, each) +
           grid_memory<wide_storage>::bytes(requests < max_grid_requests ? requests : max_grid_requests);
}

struct partition {
    grid_memory<wide_storage> grid;
    bool has_grid = false;
};

/// Divides a workspace: scratch first. False if it is too small for the scratch, or misaligned.
[[nodiscard]] inline bool divide_workspace(void* workspace, std::size_t size, std::int32_t requests, std::size_t each,
                                           partition& result) noexcept {
    std::size_t const scratch = scratch_size(requests, each);
    if (each > 0 && (workspace == nullptr || reinterpret_cast<std::uintptr_t>(workspace) % 16 != 0 || size < scratch))
        return false;
    if (workspace != nullptr && requests >= 1 && requests <= max_grid_requests &&
        size >= workspace_size(requests, each) && reinterpret_cast<std::uintptr_t>(workspace) % 16 == 0) {
        result.has_grid = true;
        result.grid = grid_memory<wide_storage>::at(static_cast<std::byte*>(workspace) + scratch, requests);
    }
    return true;
}

}  // namespace MULTIDRAFT_NAMESPACE::cuda::detail
