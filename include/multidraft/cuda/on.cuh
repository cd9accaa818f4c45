// The policy of batched calls on a CUDA device: a stream, and its launches over indices and over rows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/batch/arguments.hpp"
#include "multidraft/batch/execution_policy.hpp"
#include "multidraft/cuda/kernel_rows.hpp"
#include "multidraft/cuda/launch.cuh"
#include "multidraft/cuda/launch_shape.hpp"
#include "multidraft/group/group.hpp"

namespace MULTIDRAFT_NAMESPACE::cuda {

/// Why a call of this thread was last refused with `cudaErrorInvalidValue`, with argument, index and value: the text
/// that the same call throws on a host, such as `draft.vocabulary = 299: draft and target have one vocabulary`. Empty
/// before the first one and once a later call launches: an error of the runtime has no such text. Valid until the next
/// call. Arrays in device memory are not read by these checks; `validate_batch` reports their faults.
[[nodiscard]] inline std::string_view last_refusal() noexcept { return detail::refusal_of_this_thread().view(); }

/// A stream and launch options.
struct stream_policy {
    cudaStream_t stream = nullptr;
    launch_options options{};

    /// The error of a call with bad arguments; its text is kept for `last_refusal`.
    [[nodiscard]] static cudaError_t refused(invalid_input const& e) noexcept { return detail::refused(e); }
};

/// Runs the calls of `batch/` on a stream. All their pointers are then to device memory, and they return the launch's
/// error (`cudaError_t`); for `cudaErrorInvalidValue`, `last_refusal()` names the argument. They do not allocate,
/// synchronise or throw, and may be captured in a CUDA graph.
[[nodiscard]] inline stream_policy on(cudaStream_t stream, launch_options const& options = {}) noexcept {
    return {stream, options};
}

namespace detail {

inline constexpr int element_threads = 256;

/// Calls `body(k)` for k < count in a grid-stride loop.
template <class Body>
__global__ void __launch_bounds__(element_threads) for_each_kernel(std::int64_t count, Body body) {
    std::int64_t const step = static_cast<std::int64_t>(gridDim.x) * element_threads;
    for (std::int64_t k = static_cast<std::int64_t>(blockIdx.x) * element_threads + threadIdx.x; k < count; k += step)
        body(k);
}

// Two blocks of a multiprocessor read while one waits.
template <class Group, class Body>
__global__ void __launch_bounds__(row_threads, 2) row_kernel(Body body, wide_exchange grid) {
    __shared__ typename Group::storage shared;
    Group const g(lanes_in<Group>(shared, grid), shared);
    body(g, std::int64_t{static_cast<int>(blockIdx.x) / g.lanes().ranks()});
}

}  // namespace detail

/// Calls `body(k)` for 0 <= k < count on a stream, in one launch, and returns its error. Neither allocates nor
/// synchronises; may be captured in a graph.
template <class Body>
[[nodiscard]] cudaError_t for_each(stream_policy const& policy, std::int64_t count, Body const& body) {
    if (count < 0) return policy.refused({"count", -1, std::to_string(count), "a call is over 0 indices or more"});
    std::int64_t const blocks = (count + detail::element_threads - 1) / detail::element_threads;
    constexpr std::int64_t most = 1 << 20;
    return detail::launch_blocks(detail::for_each_kernel<Body>, blocks < most ? blocks : most, detail::element_threads,
                                 policy.stream, count, body);
}

/// Bytes of device memory that calls over up to `rows` rows (`prepare_batch`, `predict_batch`) work in on a stream. Few
/// long rows are read by many blocks each, which meet there. Aligned to 256 bytes, as `cudaMalloc` does.
[[nodiscard]] constexpr std::size_t row_workspace_size(stream_policy const&, std::int64_t rows) noexcept {
    return detail::workspace_size(static_cast<std::int32_t>(rows < max_grid_requests ? rows : max_grid_requests), 0);
}

/// Calls `make(rows)(g, i)` for 0 <= i < count on a stream, in one launch, where g is a group of threads: a block, a
/// cluster or many blocks of a grid. `make` may get the rows with a layout that says that they are aligned. Returns the
/// launch's error, and refuses a vocabulary that rows cannot have, and 2^31 rows or more. `scratch`:
/// `row_workspace_size` bytes, or none: then never grid-wide. Neither allocates nor synchronises; may be captured in a
/// graph.
template <class Rows, class Make>
[[nodiscard]] cudaError_t for_each_row(stream_policy const& policy, std::int64_t count, Rows const& rows,
                                       Make const& make, workspace const& scratch = {}) {
    if (count == 0) return cudaSuccess;
    auto const refuse_bad_rows = [&] {
        if (count < 0) refuse("count", count, "a call is over 0 rows or more");
        multidraft::detail::refuse_too_many_rows(count);
        validate_row_size(rows.vocabulary, "rows", ".vocabulary");
    };
    if (cudaError_t const e = multidraft::detail::checked(policy, refuse_bad_rows, [] { return cudaSuccess; }))
        return e;
    detail::partition parts = detail::divide_workspace(scratch.data, scratch.size, static_cast<std::int32_t>(count), 0);
    auto const with_aligned = [&] {
        auto const same = detail::as_aligned(rows);
        auto const body = make(same);
        using aligned_rows = std::remove_const_t<decltype(same)>;
        using body_type = std::remove_const_t<decltype(body)>;
        return detail::launch_rows(
            policy.stream, policy.options, detail::row_kernel<detail::whole_group<aligned_rows>, body_type>,
            detail::row_kernel<detail::wide_group<aligned_rows>, body_type>, count, rows.vocabulary, parts, body);
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
        return detail::launch_rows(policy.stream, policy.options, kernel, kernel, count, rows.vocabulary, parts, body);
    }
}

}  // namespace MULTIDRAFT_NAMESPACE::cuda
