// Drawing candidates on a CUDA device, directly from logits: one launch for a level of all trees.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/batch/detail/refusals.hpp"
#include "multidraft/batch/draft_entry.hpp"
#include "multidraft/batch/level_batch.hpp"
#include "multidraft/batch/request_batch.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/batch/target_and_draft.hpp"
#include "multidraft/batch/workspace.hpp"
#include "multidraft/cuda/aligned_rows.hpp"
#include "multidraft/cuda/launch.cuh"
#include "multidraft/cuda/on.cuh"
#include "multidraft/cuda/workspace.cuh"
#include "multidraft/draft/sampler.hpp"
#include "multidraft/law/law.hpp"

namespace MULTIDRAFT_NAMESPACE {

namespace cuda::detail {

template <class Group, sampler Sampler, class Rows>
__global__ void __launch_bounds__(row_threads, 1)
    draft_kernel(Sampler sampler, level_batch level, Rows rows, request_batch requests, children_batch out,
                 wide_exchange grid) {
    __shared__ typename Group::storage shared;
    Group const g(lanes_in<Group>(shared, grid), shared);
    auto const e = static_cast<std::int32_t>(static_cast<int>(blockIdx.x) / g.lanes().ranks());
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
/// Returns `cudaErrorInvalidValue` where the same call on a host throws for what is not in an array
/// (`cuda::last_refusal` names the argument). For alignment, allocation and errors of the launch see `verify_batch`.
template <sampler Sampler, logit_row_batch Rows>
[[nodiscard]] cudaError_t draft_batch(cuda::stream_policy const& policy, Sampler const& sampler,
                                      level_batch const& level, draft_rows<Rows> const& rows,
                                      request_batch const& requests, children_batch const& out,
                                      workspace const& scratch = {}) {
    namespace device = cuda::detail;
    index_t const vocabulary = rows.rows.vocabulary;
    if (level.entries == 0) return cudaSuccess;
    auto const refuse_bad_call = [&] { detail::refuse_bad_level<Sampler>(level, rows.rows, requests, out); };
    if (cudaError_t const e = detail::checked(policy, refuse_bad_call, [] { return cudaSuccess; })) return e;
    device::partition parts = device::divide_workspace(scratch.data, scratch.size, level.entries, 0);
    auto const with = [&](auto whole_kernel, auto split_kernel, auto const& q) {
        return device::launch_rows(policy.stream, policy.options, whole_kernel, split_kernel, level.entries, vocabulary,
                                   parts, sampler, level, q, requests, out);
    };
    auto const with_aligned = [&] {
        auto const q = device::as_aligned(rows.rows);
        using aligned_rows = std::remove_const_t<decltype(q)>;
        return with(device::draft_kernel<device::whole_group<aligned_rows>, Sampler, aligned_rows>,
                    device::draft_kernel<device::wide_group<aligned_rows>, Sampler, aligned_rows>, q);
    };
    if constexpr (device::always_aligned<Rows>) {
        return with_aligned();
    } else {
        if constexpr (device::may_be_aligned<Rows>)
            if (device::rows_are_aligned(rows.rows)) return with_aligned();
        // Rows that are read entry by entry have one kernel, and never a grid-wide launch.
        parts.has_grid = false;
        auto const q = device::as_entries(rows.rows);
        auto* const kernel = device::draft_kernel<device::entry_group, Sampler, std::remove_const_t<decltype(q)>>;
        return with(kernel, kernel, q);
    }
}

}  // namespace MULTIDRAFT_NAMESPACE
