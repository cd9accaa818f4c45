// Verification of a batch of draft trees on a CUDA device, in one launch: a block, a cluster or many blocks per tree.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "multidraft/batch/request_batch.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/batch/target_and_draft.hpp"
#include "multidraft/batch/tree_batch.hpp"
#include "multidraft/batch/verdict_batch.hpp"
#include "multidraft/batch/verify_request.hpp"
#include "multidraft/batch/workspace.hpp"
#include "multidraft/core/config.hpp"
#include "multidraft/core/span.hpp"
#include "multidraft/cuda/aligned_rows.hpp"
#include "multidraft/cuda/cluster_group.cuh"
#include "multidraft/cuda/launch.cuh"
#include "multidraft/cuda/on.cuh"
#include "multidraft/cuda/workspace.cuh"
#include "multidraft/draft/law.hpp"
#include "multidraft/verify/verifier.hpp"

namespace MULTIDRAFT_NAMESPACE {

namespace cuda::detail {

/// The scratch of one request.
struct scratch_slices {
    std::byte* data = nullptr;
    std::size_t each = 0;

    [[nodiscard]] MULTIDRAFT_HD span<std::byte> operator()(std::int32_t b) const noexcept {
        return {data + static_cast<std::size_t>(b) * each, each};
    }
};

template <int Split, verify::verifier Verifier, class Target, class Draft>
__global__ void __launch_bounds__(row_threads, 1)
    verify_kernel(Verifier verifier, drafted_batch<typename Verifier::law> drafts, target_rows<Target> target,
                  draft_rows<Draft> draft, request_batch requests, verdict_batch out, scratch_slices scratch,
                  int prefetched) {
    using group_type = cluster_group<row_threads, Split, float, read_at_once<Target>>;
    __shared__ typename group_type::storage shared;
    group_type const g({}, shared);
    auto const b = static_cast<std::int32_t>(static_cast<int>(blockIdx.x) / g.lanes().ranks());
    multidraft::detail::verify_request(g, verifier, b, drafts, target, draft, requests, out, scratch(b), prefetched);
}

template <verify::verifier Verifier, class Target, class Draft>
__global__ void __launch_bounds__(row_threads, 1)
    verify_grid_kernel(Verifier verifier, drafted_batch<typename Verifier::law> drafts, target_rows<Target> target,
                       draft_rows<Draft> draft, request_batch requests, verdict_batch out, scratch_slices scratch,
                       int prefetched, grid_memory<wide_storage> memory, int ranks) {
    __shared__ wide_storage shared;
    auto const b = static_cast<std::int32_t>(static_cast<int>(blockIdx.x) / ranks);
    auto const rank = static_cast<int>(blockIdx.x) % ranks;
    wide_group<read_at_once<Target>> const g({b, rank, ranks, shared, memory}, shared);
    multidraft::detail::verify_request(g, verifier, b, drafts, target, draft, requests, out, scratch(b), prefetched);
}

/// Checks the arguments that are in host memory.
template <class Law, class Target, class Draft>
[[nodiscard]] cudaError_t check_arguments(tree_batch const& trees, Target const& target, Draft const& draft) noexcept {
    if (trees.requests < 0 || trees.nodes < 0 || (trees.requests == 0 && trees.nodes > 0)) return cudaErrorInvalidValue;
    if (trees.requests == 0) return cudaSuccess;
    if (target.vocabulary < 1 || target.vocabulary > max_row_size) return cudaErrorInvalidValue;
    if constexpr (multidraft::detail::has_states<Target>)
        if (target.states == nullptr || target.sums == nullptr) return cudaErrorInvalidValue;
    if constexpr (row_batch<Draft>)
        if (draft.vocabulary != target.vocabulary) return cudaErrorInvalidValue;
    if constexpr (counts_certain<Law>)
        if (trees.certain == nullptr) return cudaErrorInvalidValue;
    return cudaSuccess;
}

}  // namespace cuda::detail

/// Bytes of device memory that `verify_batch` needs as workspace on a stream, for up to `requests` trees of up to
/// `nodes` nodes (root included), `depth` levels below the root: the batch's `path_stride`, or `nodes` where that is 0.
///
/// It holds the scratch of verifiers of whole trees, and what blocks of a grid exchange when few requests have long
/// rows. Nondecreasing in its arguments. Align it to 256 bytes, as `cudaMalloc` does.
template <verify::verifier Verifier>
[[nodiscard]] constexpr std::size_t verify_workspace_size(cuda::stream_policy const&, std::int32_t requests,
                                                          node_id nodes, std::int32_t depth) {
    return cuda::detail::workspace_size(requests, verify::scratch_bytes<Verifier>(nodes, depth));
}

/// Verifies the trees of a batch on a CUDA device, with the arguments of every backend (`batch/verify.hpp`):
/// `verify_batch(cuda::on(stream), verifier, drafts, target_rows(p), draft_rows(q), requests, out, workspace)`.
///
/// - `target`, `draft`: rows of float, `float16` or `bfloat16`. A `prepared_batch`, with the row states that
///   `draft_batch` wrote for the draft or `prepare_batch` for either, saves the passes of normalisers and truncation at
///   each node on the path, which follow one another.
/// - `scratch`: `verify_workspace_size<Verifier>(..)` bytes. A verifier that decides node by node works with less or
///   none, but then never grid-wide (see `cuda::detail::choose_shape`). Verifiers of whole trees also need
///   `trees.largest`.
///
/// The decisions are the host's, bit for bit, whatever the batch and the launch shape. Neither allocates nor
/// synchronises; may be captured in a graph. Device memory is not checked (see `validate_batch`), but an invalid tree
/// or a row that is not a distribution gives the token `none`.
///
/// If all rows begin at multiples of 16 bytes, they are read 16 bytes at a time, which includes the padding of their
/// last 16 bytes. Returns the launch's error; success without a launch for an empty batch; `cudaErrorInvalidValue` for
/// different vocabularies, a missing path, prepared rows of the target without sums, or missing `certain` of a law with
/// certain children; also, if the verifier needs scratch, for too small a workspace or without `trees.largest`.
template <verify::verifier Verifier, draft_law Law, row_batch Target, draft_row_batch Draft>
[[nodiscard]] cudaError_t verify_batch(cuda::stream_policy const& policy, Verifier const& verifier,
                                       drafted_batch<Law> const& drafts, target_rows<Target> const& target,
                                       draft_rows<Draft> const& draft, request_batch const& requests,
                                       verdict_batch const& out, workspace const& scratch = {}) {
    detail::require_fit<Verifier, Law, Draft>();
    tree_batch const& trees = drafts.trees;
    // Named with the verifier's law, so that another law gives a single message.
    auto const fitting = drawn_by<typename Verifier::law>(trees);
    namespace device = cuda::detail;
    if (cudaError_t const e = device::check_arguments<typename Verifier::law>(trees, target.rows, draft.rows)) return e;
    if (trees.requests == 0) return cudaSuccess;
    if (out.path == nullptr || out.path_stride < 0) return cudaErrorInvalidValue;
    device::scratch_slices slices;
    if constexpr (verify::needs_scratch<Verifier>) {
        if (trees.largest < 1) return cudaErrorInvalidValue;
        slices = {static_cast<std::byte*>(scratch.data),
                  verify::scratch_bytes<Verifier>(trees.largest, out.deepest(trees.largest))};
    }
    int const prefetched = device::prefetched_rows(trees.requests, policy.options);
    device::partition parts;
    if (!device::divide_workspace(scratch.data, scratch.size, trees.requests, slices.each, parts))
        return cudaErrorInvalidValue;
    auto const with = [&](auto one_warp_kernel, auto split_kernel, auto kernel_of_grid, auto const& p, auto const& q) {
        device::shape shape;
        if (cudaError_t const e = device::choose_for(one_warp_kernel, trees.requests, target.rows.vocabulary,
                                                     policy.options, parts.has_grid, shape))
            return e;
        if constexpr (!std::is_same_v<decltype(kernel_of_grid), std::nullptr_t>) {
            if (shape.grid) {
                if (cudaError_t const e = parts.grid.clear(trees.requests, policy.stream)) return e;
                return device::launch(kernel_of_grid, trees.requests, shape, device::row_threads, policy.stream,
                                      verifier, fitting, p, q, requests, out, slices, prefetched, parts.grid,
                                      shape.ranks);
            }
        }
        return device::launch(shape.split ? split_kernel : one_warp_kernel, trees.requests, shape, device::row_threads,
                              policy.stream, verifier, fitting, p, q, requests, out, slices, prefetched);
    };
    if constexpr (device::may_be_aligned<Target> && device::may_be_aligned<Draft>) {
        if (device::rows_are_aligned(target.rows) && device::rows_are_aligned(draft.rows)) {
            target_rows const p(device::as_aligned(target.rows));
            draft_rows const q(device::as_aligned(draft.rows));
            using rows_of_target = decltype(p.rows);
            using rows_of_draft = decltype(q.rows);
            return with(device::verify_kernel<1, Verifier, rows_of_target, rows_of_draft>,
                        device::verify_kernel<device::short_split, Verifier, rows_of_target, rows_of_draft>,
                        device::verify_grid_kernel<Verifier, rows_of_target, rows_of_draft>, p, q);
        }
    }
    // Rows that are read entry by entry have one kernel, and never a grid-wide launch.
    parts.has_grid = false;
    return with(device::verify_kernel<device::short_split, Verifier, Target, Draft>,
                device::verify_kernel<device::short_split, Verifier, Target, Draft>, nullptr, target, draft);
}

}  // namespace MULTIDRAFT_NAMESPACE
