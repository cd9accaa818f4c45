// Calls for each row of a batch on a stream: a block, a cluster or many blocks of a grid for each row.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/batch/workspace.hpp"
#include "multidraft/cuda/aligned_rows.hpp"
#include "multidraft/cuda/launch.cuh"
#include "multidraft/cuda/on.cuh"
#include "multidraft/cuda/workspace.cuh"
#include "multidraft/group/group.hpp"

namespace MULTIDRAFT_NAMESPACE::cuda {

namespace detail {

template <class Group, class Body>
__global__ void __launch_bounds__(row_threads, 1) row_kernel(Body body, wide_exchange grid) {
    __shared__ typename Group::storage shared;
    Group const g(lanes_in<Group>(shared, grid), shared);
    body(g, std::int64_t{static_cast<int>(blockIdx.x) / g.lanes().ranks()});
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
    detail::partition parts = detail::divide_workspace(scratch.data, scratch.size, static_cast<std::int32_t>(count), 0);
    auto const with_aligned = [&] {
        auto const same = detail::as_aligned(rows);
        auto const body = make(same);
        using aligned_rows = std::remove_const_t<decltype(same)>;
        using body_type = std::remove_const_t<decltype(body)>;
        return detail::launch_rows(policy, detail::row_kernel<detail::whole_group<aligned_rows>, body_type>,
                                   detail::row_kernel<detail::wide_group<aligned_rows>, body_type>, count,
                                   rows.vocabulary, parts, body);
    };
    if constexpr (detail::always_aligned<Rows>) {
        return with_aligned();
    } else {
        if constexpr (detail::may_be_aligned<Rows>)
            if (detail::rows_are_aligned(rows)) return with_aligned();
        // Rows that are read entry by entry have one kernel, and never a grid-wide launch.
        parts.has_grid = false;
        auto const body = make(detail::as_entries(rows));
        auto* const kernel = detail::row_kernel<detail::entry_group, std::remove_const_t<decltype(body)>>;
        return detail::launch_rows(policy, kernel, kernel, count, rows.vocabulary, parts, body);
    }
}

}  // namespace MULTIDRAFT_NAMESPACE::cuda
