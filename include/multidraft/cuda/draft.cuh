// Drawing candidates on a CUDA device, directly from logits: one launch for a level of all trees.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "multidraft/batch/draft_entry.hpp"
#include "multidraft/batch/level_batch.hpp"
#include "multidraft/batch/request_batch.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/batch/target_and_draft.hpp"
#include "multidraft/batch/workspace.hpp"
#include "multidraft/core/config.hpp"
#include "multidraft/cuda/aligned_rows.hpp"
#include "multidraft/cuda/cluster_group.cuh"
#include "multidraft/cuda/launch.cuh"
#include "multidraft/cuda/on.cuh"
#include "multidraft/cuda/workspace.cuh"
#include "multidraft/draft/law.hpp"
#include "multidraft/draft/sampler.hpp"

namespace MULTIDRAFT_NAMESPACE {

namespace cuda::detail {

template <int Split, sampler Sampler, class Rows>
__global__ void __launch_bounds__(row_threads, 1)
    draft_kernel(Sampler sampler, level_batch level, Rows rows, request_batch requests, children_batch out) {
    using group_type = cluster_group<row_threads, Split, float, read_at_once<Rows>>;
    __shared__ typename group_type::storage shared;
    group_type const g({}, shared);
    auto const e = static_cast<std::int32_t>(static_cast<int>(blockIdx.x) / g.lanes().ranks());
    multidraft::detail::draft_entry(g, sampler, e, level, rows, requests, out);
}

template <sampler Sampler, class Rows>
__global__ void __launch_bounds__(row_threads, 1)
    draft_grid_kernel(Sampler sampler, level_batch level, Rows rows, request_batch requests, children_batch out,
                      grid_memory<wide_storage> memory, int ranks) {
    __shared__ wide_storage shared;
    auto const e = static_cast<std::int32_t>(static_cast<int>(blockIdx.x) / ranks);
    auto const rank = static_cast<int>(blockIdx.x) % ranks;
    wide_group<read_at_once<Rows>> const g({e, rank, ranks, shared, memory}, shared);
    multidraft::detail::draft_entry(g, sampler, e, level, rows, requests, out);
}

}  // namespace cuda::detail

/// Bytes of device memory that `draft_batch` needs as workspace on a stream, for levels of up to `entries` nodes. See
/// `verify_workspace_size`.
[[nodiscard]] constexpr std::size_t draft_workspace_size(cuda::stream_policy const&, std::int32_t entries) noexcept {
    return cuda::detail::workspace_size(entries, 0);
}

/// Draws the children of the nodes of a level on a CUDA device, with the arguments of every backend
/// (`batch/draft.hpp`). One kernel computes the normaliser and draws: a block, a cluster or many blocks per node.
///
/// `rows`: a `logit_batch` or an `adjusted_batch` of float, `float16` or `bfloat16`. The tokens are those that the host
/// draws from the same seed. `scratch`: `draft_workspace_size(..)` bytes, or none, which excludes grid-wide launches.
/// Returns `cudaErrorInvalidValue` for missing arrays (`out.certain` if the law has certain children, `level.depths` if
/// the sampler is addressed by text, `level.wanted` with `out.first`) and for `out.states` with adjusted rows. For
/// alignment, allocation and errors of the launch see `verify_batch`.
template <sampler Sampler, logit_row_batch Rows>
[[nodiscard]] cudaError_t draft_batch(cuda::stream_policy const& policy, Sampler const& sampler,
                                      level_batch const& level, draft_rows<Rows> const& rows,
                                      request_batch const& requests, children_batch const& out,
                                      workspace const& scratch = {}) {
    namespace device = cuda::detail;
    index_t const vocabulary = rows.rows.vocabulary;
    if (level.entries == 0) return cudaSuccess;
    if (level.entries < 0 || vocabulary < 1 || vocabulary > max_row_size || out.tokens == nullptr || out.stride < 0 ||
        (out.first != nullptr && level.wanted == nullptr))
        return cudaErrorInvalidValue;
    if constexpr (counts_certain<typename Sampler::law>)
        if (out.certain == nullptr) return cudaErrorInvalidValue;
    if constexpr (multidraft::detail::has_adjustments<Rows>)
        if (out.states != nullptr) return cudaErrorInvalidValue;
    if constexpr (is_addressed_by_text<Sampler>)
        if (level.depths == nullptr) return cudaErrorInvalidValue;
    device::partition parts;
    if (!device::divide_workspace(scratch.data, scratch.size, level.entries, 0, parts)) return cudaErrorInvalidValue;
    auto const with = [&](auto one_warp_kernel, auto split_kernel, auto kernel_of_grid, auto const& q) {
        device::shape shape;
        if (cudaError_t const e =
                device::choose_for(one_warp_kernel, level.entries, vocabulary, policy.options, parts.has_grid, shape))
            return e;
        if constexpr (!std::is_same_v<decltype(kernel_of_grid), std::nullptr_t>) {
            if (shape.grid) {
                if (cudaError_t const e = parts.grid.clear(level.entries, policy.stream)) return e;
                return device::launch(kernel_of_grid, level.entries, shape, device::row_threads, policy.stream, sampler,
                                      level, q, requests, out, parts.grid, shape.ranks);
            }
        }
        return device::launch(shape.split ? split_kernel : one_warp_kernel, level.entries, shape, device::row_threads,
                              policy.stream, sampler, level, q, requests, out);
    };
    if constexpr (device::may_be_aligned<Rows>) {
        if (device::rows_are_aligned(rows.rows)) {
            auto const q = device::as_aligned(rows.rows);
            using aligned_rows = std::remove_const_t<decltype(q)>;
            return with(device::draft_kernel<1, Sampler, aligned_rows>,
                        device::draft_kernel<device::short_split, Sampler, aligned_rows>,
                        device::draft_grid_kernel<Sampler, aligned_rows>, q);
        }
    }
    // Rows that are read entry by entry have one kernel, and never a grid-wide launch.
    parts.has_grid = false;
    return with(device::draft_kernel<device::short_split, Sampler, Rows>,
                device::draft_kernel<device::short_split, Sampler, Rows>, nullptr, rows.rows);
}

}  // namespace MULTIDRAFT_NAMESPACE
