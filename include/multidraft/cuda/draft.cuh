// Drawing candidates on a device: all nodes of a level of all trees in one launch, straight from logits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "multidraft/core/config.hpp"
#include "multidraft/cuda/batch.hpp"
#include "multidraft/cuda/cluster_group.cuh"
#include "multidraft/cuda/launch.cuh"
#include "multidraft/cuda/verify_tree.hpp"
#include "multidraft/cuda/workspace.cuh"
#include "multidraft/draft/law.hpp"
#include "multidraft/draft/sampler.hpp"

namespace MULTIDRAFT_NAMESPACE::cuda {

namespace detail {

template <class Layout, int Split, sampler Sampler, class T>
__global__ void __launch_bounds__(row_threads, 1)
    draft_kernel(Sampler sampler, draft_batch batch, request_batch requests, logits<T> rows, index_t vocabulary) {
    using group_type = cluster_group<row_threads, Split, float, read_at_once<Layout, T>>;
    __shared__ typename group_type::storage shared;
    group_type const g({}, shared);
    auto const e = static_cast<std::int32_t>(static_cast<int>(blockIdx.x) / g.lanes().ranks());
    draft_entry<Layout>(g, sampler, e, batch, requests, rows, vocabulary);
}

template <class Layout, sampler Sampler, class T>
__global__ void __launch_bounds__(row_threads, 1)
    draft_grid_kernel(Sampler sampler, draft_batch batch, request_batch requests, logits<T> rows, index_t vocabulary,
                      grid_memory<wide_storage> memory, int ranks) {
    __shared__ wide_storage shared;
    auto const e = static_cast<std::int32_t>(static_cast<int>(blockIdx.x) / ranks);
    auto const rank = static_cast<int>(blockIdx.x) % ranks;
    wide_group<Layout, T> const g({e, rank, ranks, shared, memory}, shared);
    draft_entry<Layout>(g, sampler, e, batch, requests, rows, vocabulary);
}

}  // namespace detail

/// Bytes of device memory that `draft` works in, for levels of up to `entries` nodes. See `verify_workspace_size`.
[[nodiscard]] constexpr std::size_t draft_workspace_size(std::int32_t entries) noexcept {
    return detail::workspace_size(entries, 0);
}

/// Draws the children of `batch.entries` nodes with a sampler of `multidraft/draft/`, such as `draft::sequential{}`:
/// the normaliser and the draws in one kernel; a block, a cluster or many blocks a node.
///
/// `rows`: row e holds the logits of entry e, float, `half` or `bfloat16`. The tokens are those that the host draws
/// from the same seed. Where a row's support is smaller than the children wanted, the rest are `none`; `verify` takes a
/// tree with such children as it is, and the law of its draws with it: `drawn_by<Sampler::law>(trees)`. A sampler of a
/// law with certain children writes to `batch.certain` how many are (`cudaErrorInvalidValue` without it). `workspace`:
/// `draft_workspace_size(..)` bytes, or null: then never grid-wide. See `verify` for what holds of every launch.
template <sampler Sampler, class T>
[[nodiscard]] cudaError_t draft(void* workspace, std::size_t workspace_size, cudaStream_t stream,
                                Sampler const& sampler, draft_batch const& batch, request_batch const& requests,
                                logits<T> const& rows, index_t vocabulary, launch_options const& options = {}) {
    if (vocabulary < 1 || vocabulary > max_row_size) return cudaErrorInvalidValue;
    if (batch.entries == 0) return cudaSuccess;
    if constexpr (counts_certain<typename Sampler::law>)
        if (batch.certain == nullptr) return cudaErrorInvalidValue;
    detail::partition parts;
    if (!detail::divide(workspace, workspace_size, batch.entries, 0, parts)) return cudaErrorInvalidValue;
    auto const with = [&](auto kernel_of_one, auto kernel_of_several, auto kernel_of_grid) {
        detail::shape shape;
        if (cudaError_t const e =
                detail::choose_for(kernel_of_one, batch.entries, vocabulary, options, parts.has_grid, shape))
            return e;
        if constexpr (!std::is_same_v<decltype(kernel_of_grid), std::nullptr_t>) {
            if (shape.grid) {
                if (cudaError_t const e = parts.grid.clear(batch.entries, stream)) return e;
                return detail::launch(kernel_of_grid, batch.entries, shape, detail::row_threads, stream, sampler, batch,
                                      requests, rows, vocabulary, parts.grid, shape.ranks);
            }
        }
        return detail::launch(shape.split ? kernel_of_several : kernel_of_one, batch.entries, shape,
                              detail::row_threads, stream, sampler, batch, requests, rows, vocabulary);
    };
    if (detail::rows_are_aligned(rows))
        return with(detail::draft_kernel<aligned<16>, 1, Sampler, T>,
                    detail::draft_kernel<aligned<16>, detail::short_split, Sampler, T>,
                    detail::draft_grid_kernel<aligned<16>, Sampler, T>);
    // One shape serves rows that are read entry by entry, and those never grid-wide.
    parts.has_grid = false;
    return with(detail::draft_kernel<contiguous, detail::short_split, Sampler, T>,
                detail::draft_kernel<contiguous, detail::short_split, Sampler, T>, nullptr);
}

}  // namespace MULTIDRAFT_NAMESPACE::cuda
