// The layout of a launch's workspace: scratch of each request, then memory for the exchange between blocks of a grid.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/cuda/cluster_group.cuh"
#include "multidraft/cuda/device_group.cuh"
#include "multidraft/cuda/grid_group.cuh"
#include "multidraft/cuda/kernel_rows.hpp"
#include "multidraft/cuda/launch.cuh"
#include "multidraft/cuda/launch_shape.hpp"

namespace MULTIDRAFT_NAMESPACE::cuda::detail {

// The groups of a launch, for rows of a type.

/// One warp sums a chunk: a block or a cluster.
template <class Rows>
using whole_group = cluster_group<row_threads, 1, float, read_at_once<Rows>>;
/// Several warps sum a chunk: a block, a cluster or, in a cooperative launch, many blocks of a grid.
template <class Rows>
using wide_group = device_group<row_threads, short_split, float, read_at_once<Rows>>;
/// The group for rows that are read entry by entry: a block or a cluster.
using entry_group = cluster_group<row_threads, short_split>;

/// The shared storage of groups for grid-wide launches.
using wide_storage = device_group<row_threads, short_split>::storage;
using wide_exchange = grid_exchange<wide_storage>;

/// The lanes of this block in a launch.
template <class Group>
[[nodiscard]] __device__ __forceinline__ typename Group::lanes_type lanes_in(typename Group::storage& shared,
                                                                             wide_exchange const& grid) {
    if constexpr (exchanges_in_memory<typename Group::lanes_type>)
        return {shared, grid};
    else
        return {};
}

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

/// Refuses a workspace that is too small for scratch, or misaligned.
inline void refuse_bad_scratch(void const* workspace, std::size_t size, std::int32_t requests, std::size_t each) {
    if (each == 0) return;
    std::size_t const scratch = scratch_size(requests, each);
    if (workspace == nullptr || size < scratch)
        refuse("workspace.size", workspace == nullptr ? 0 : size,
               std::to_string(scratch) + " bytes are needed for these trees (verify_workspace_size)");
    auto const address = reinterpret_cast<std::uintptr_t>(workspace);
    if (address % 16 != 0) refuse("workspace.data", address, "a workspace is aligned to 16 bytes");
}

/// Divides a workspace: scratch first.
[[nodiscard]] inline partition divide_workspace(void* workspace, std::size_t size, std::int32_t requests,
                                                std::size_t each) noexcept {
    partition result;
    std::size_t const scratch = scratch_size(requests, each);
    if (workspace != nullptr && requests >= 1 && requests <= max_grid_requests &&
        size >= workspace_size(requests, each) && reinterpret_cast<std::uintptr_t>(workspace) % 16 == 0) {
        result.has_grid = true;
        result.grid = grid_memory<wide_storage>::at(static_cast<std::byte*>(workspace) + scratch, requests);
    }
    return result;
}

/// Launches the kernel that suits `count` rows or requests, of a pair: for one warp a chunk, and for several. The last
/// parameter of both is a `wide_exchange`. Grid-wide only where `parts` has memory for it; the second kernel's group is
/// then a `wide_group`.
template <class... Parameters, class... Arguments>
[[nodiscard]] cudaError_t launch_rows(cudaStream_t stream, launch_options const& options, void (*whole)(Parameters...),
                                      void (*split)(Parameters...), std::int64_t count, index_t vocabulary,
                                      partition const& parts, Arguments const&... arguments) {
    shape s;
    if (cudaError_t const e = choose_for(whole, count, vocabulary, options, parts.has_grid, s)) return e;
    wide_exchange grid;
    if (s.grid) {
        grid = {parts.grid, s.ranks};
        if (cudaError_t const e = parts.grid.clear(static_cast<std::int32_t>(count), stream)) return e;
    }
    return launch(s.split ? split : whole, count, s, row_threads, stream, arguments..., grid);
}

}  // namespace MULTIDRAFT_NAMESPACE::cuda::detail
