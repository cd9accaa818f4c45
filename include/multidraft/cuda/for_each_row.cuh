// Calls for each row of a batch on a stream: a block, a cluster or many blocks of a grid for each row.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "multidraft/batch/workspace.hpp"
#include "multidraft/core/config.hpp"
#include "multidraft/core/group.hpp"
#include "multidraft/core/numbers.hpp"
#include "multidraft/core/span.hpp"
#include "multidraft/cuda/aligned_rows.hpp"
#include "multidraft/cuda/cluster_group.cuh"
#include "multidraft/cuda/launch.cuh"
#include "multidraft/cuda/on.cuh"
#include "multidraft/cuda/workspace.cuh"

namespace MULTIDRAFT_NAMESPACE::cuda {

namespace detail {

template <int Split, class Rows, class Body>
__global__ void __launch_bounds__(row_threads, 1) row_kernel(Body body) {
    using group_type = cluster_group<row_threads, Split, float, read_at_once<Rows>>;
    __shared__ typename group_type::storage shared;
    group_type const g({}, shared);
    body(g, std::int64_t{static_cast<int>(blockIdx.x) / g.lanes().ranks()});
}

template <class Rows, class Body>
__global__ void __launch_bounds__(row_threads, 1)
    row_grid_kernel(Body body, grid_memory<wide_storage> memory, int ranks) {
    __shared__ wide_storage shared;
    auto const i = static_cast<std::int32_t>(static_cast<int>(blockIdx.x) / ranks);
    auto const rank = static_cast<int>(blockIdx.x) % ranks;
    wide_group<read_at_once<Rows>> const g({i, rank, ranks, shared, memory}, shared);
    body(g, std::int64_t{i});
}

}  // namespace detail

/// Bytes of device memory that calls over up to `rows` rows (`prepare_batch`, `predict_batch`) work in on a stream. Few
/// long rows are read by many blocks each, which meet there. Aligned to 256 bytes, as `cudaMalloc` does.
[[nodiscard]] constexpr std::size_t row_workspace_size(stream_policy const&, std::int64_t rows) noexcept {
    return detail::workspace_size(static_cast<std::int32_t>(rows < max_grid_requests ? rows : max_grid_requests), 0);
}

/// Calls `make(rows)(g, i)` for 0 <= i < count on a stream, in one launch, where g is a group of threads. `make` may
/// get the rows with a layout that says that they are aligned. With this header `prepare_batch` and `predict_batch`
/// take `cuda::on(stream)` and return the launch's error; `cudaErrorInvalidValue` for a vocabulary that rows cannot
/// have, and 2^31 rows or more. `scratch`: `row_workspace_size` bytes, or none: then never grid-wide. Neither allocates
/// nor synchronises; may be captured in a graph.
template <class Rows, class Make>
[[nodiscard]] cudaError_t for_each_row(stream_policy const& policy, std::int64_t count, Rows const& rows,
                                       Make const& make, workspace const& scratch = {}) {
    if (count == 0) return cudaSuccess;
    if (count < 0 || count > largest_number<std::int32_t> || rows.vocabulary < 1 || rows.vocabulary > max_row_size)
        return cudaErrorInvalidValue;
    detail::partition parts;
    if (!detail::divide_workspace(scratch.data, scratch.size, static_cast<std::int32_t>(count), 0, parts))
        return cudaErrorInvalidValue;
    auto const with = [&](auto kernel_of_one, auto kernel_of_several, auto kernel_of_grid, auto const& body) {
        detail::shape shape;
        if (cudaError_t const e =
                detail::choose_for(kernel_of_one, count, rows.vocabulary, policy.options, parts.has_grid, shape))
            return e;
        if constexpr (!std::is_same_v<decltype(kernel_of_grid), std::nullptr_t>) {
            if (shape.grid) {
                if (cudaError_t const e = parts.grid.clear(static_cast<std::int32_t>(count), policy.stream)) return e;
                return detail::launch(kernel_of_grid, count, shape, detail::row_threads, policy.stream, body,
                                      parts.grid, shape.ranks);
            }
        }
        return detail::launch(shape.split ? kernel_of_several : kernel_of_one, count, shape, detail::row_threads,
                              policy.stream, body);
    };
    if constexpr (detail::may_be_aligned<Rows>) {
        if (detail::rows_are_aligned(rows)) {
            auto const same = detail::as_aligned(rows);
            auto const body = make(same);
            using aligned_rows = std::remove_const_t<decltype(same)>;
            using body_type = std::remove_const_t<decltype(body)>;
            return with(detail::row_kernel<1, aligned_rows, body_type>,
                        detail::row_kernel<detail::short_split, aligned_rows, body_type>,
                        detail::row_grid_kernel<aligned_rows, body_type>, body);
        }
    }
    // One shape serves rows that are read entry by entry, and those never grid-wide.
    parts.has_grid = false;
    auto const body = make(rows);
    using body_type = std::remove_const_t<decltype(body)>;
    return with(detail::row_kernel<detail::short_split, Rows, body_type>,
                detail::row_kernel<detail::short_split, Rows, body_type>, nullptr, body);
}

}  // namespace MULTIDRAFT_NAMESPACE::cuda
