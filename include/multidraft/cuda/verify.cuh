// Verifying a batch of draft trees on a device: one launch, a block, a cluster or many blocks a tree.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "multidraft/core/config.hpp"
#include "multidraft/core/span.hpp"
#include "multidraft/cuda/batch.hpp"
#include "multidraft/cuda/cluster_group.cuh"
#include "multidraft/cuda/launch.cuh"
#include "multidraft/cuda/verify_tree.hpp"
#include "multidraft/cuda/workspace.cuh"
#include "multidraft/draft/law.hpp"
#include "multidraft/verify/verifier.hpp"

namespace MULTIDRAFT_NAMESPACE::cuda {

namespace detail {

/// The scratch of one request.
struct scratch_slices {
    std::byte* data = nullptr;
    std::size_t each = 0;

    [[nodiscard]] MULTIDRAFT_HD span<std::byte> operator()(std::int32_t b) const noexcept {
        return {data + static_cast<std::size_t>(b) * each, each};
    }
};

template <class Layout, int Split, verify::verifier Verifier, class Target, class Draft>
__global__ void __launch_bounds__(row_threads, 1)
    verify_kernel(Verifier verifier, drafted_batch<typename Verifier::law> drafts, request_batch requests,
                  Target target, Draft draft, index_t vocabulary, verdict_batch out, scratch_slices scratch,
                  int prefetched) {
    using group_type = cluster_group<row_threads, Split, float, read_at_once<Layout, typename Target::element>>;
    __shared__ typename group_type::storage shared;
    group_type const g({}, shared);
    auto const b = static_cast<std::int32_t>(static_cast<int>(blockIdx.x) / g.lanes().ranks());
    verify_request<Layout>(g, verifier, b, drafts, requests, target, draft, vocabulary, out, scratch(b), prefetched);
}

template <class Layout, verify::verifier Verifier, class Target, class Draft>
__global__ void __launch_bounds__(row_threads, 1)
    verify_grid_kernel(Verifier verifier, drafted_batch<typename Verifier::law> drafts, request_batch requests,
                       Target target, Draft draft, index_t vocabulary, verdict_batch out, scratch_slices scratch,
                       int prefetched, grid_memory<wide_storage> memory, int ranks) {
    __shared__ wide_storage shared;
    auto const b = static_cast<std::int32_t>(static_cast<int>(blockIdx.x) / ranks);
    auto const rank = static_cast<int>(blockIdx.x) % ranks;
    wide_group<Layout, typename Target::element> const g({b, rank, ranks, shared, memory}, shared);
    verify_request<Layout>(g, verifier, b, drafts, requests, target, draft, vocabulary, out, scratch(b), prefetched);
}

}  // namespace detail

/// Bytes of device memory that `verify` works in, for batches of up to `requests` trees of up to `nodes` nodes (root
/// included): `depth` is the batch's `path_stride`.
///
/// Verifiers of whole trees keep something for each node there; every verifier has blocks of a grid meet there when
/// few requests have long rows. Never less for more. Align it to 256 bytes, as `cudaMalloc` does. Its content means
/// nothing before or after; launches that may run at the same time have one each.
template <verify::verifier Verifier>
[[nodiscard]] constexpr std::size_t verify_workspace_size(std::int32_t requests, node_id nodes, std::int32_t depth) {
    return detail::workspace_size(requests, verify::scratch_bytes<Verifier>(nodes, depth));
}

/// Verifies the trees of a batch with a verifier of `multidraft/verify/`, such as
/// `verify::recursive_rejection<law::sequential>{}`.
///
/// - `drafts`: `drawn_by<Law>(trees)`, the sampler's law; trees of another law than the verifier's do not compile.
/// - `workspace`: device memory of `verify_workspace_size<Verifier>(..)` bytes. A verifier that decides node by node
///   does with less or none, and then never uses the grid-wide form (see `detail::choose`).
/// - `target`: `logits<T>` or `probability_batch<T>`, T float, `half` or `bfloat16`; row `trees.offsets[b] + i` is the
///   target's distribution after node i of request b.
/// - `draft`: the same of the draft, or `prepared<T>` with the row states that `draft` wrote (one pass over memory less
///   for each node on the path), or `no_draft_rows{}` for `verify::naive`.
/// - `out`: see `verdict_batch`.
///
/// All pointers are to device memory. The decisions have the bits of the host's, whatever the batch and the shape of
/// the launch. Neither allocates nor synchronises; may be captured in a graph. Which rows are read is the verifier's to
/// say: those on the accepted path where it decides node by node. Nothing is checked (see `validate`), but a row that
/// is no distribution gives the token `none`.
///
/// Where all rows begin at multiples of 16 bytes they are read 16 bytes at a time, to the end of their last 16 bytes.
/// Returns the launch's error; success, without a launch, for no requests at all; `cudaErrorInvalidValue` when a
/// verifier of whole trees has too little workspace, or is not told the `largest` tree, or when the law has certain
/// children and the batch does not say which.
template <verify::verifier Verifier, draft_law Law, class Target, class Draft>
[[nodiscard]] cudaError_t verify(void* workspace, std::size_t workspace_size, cudaStream_t stream,
                                 Verifier const& verifier, drafted_batch<Law> const& drafts,
                                 request_batch const& requests, Target const& target, Draft const& draft,
                                 index_t vocabulary, verdict_batch const& out, launch_options const& options = {}) {
    verify::require_law<Verifier, Law>();
    tree_batch const& trees = drafts.trees;
    // Of the verifier's law by name, so that another law is one message and not one more for each kernel.
    auto const fitting = drawn_by<typename Verifier::law>(trees);
    if (vocabulary < 1 || vocabulary > max_row_size) return cudaErrorInvalidValue;
    if (trees.requests == 0) return cudaSuccess;
    if constexpr (counts_certain<typename Verifier::law>)
        if (trees.certain == nullptr) return cudaErrorInvalidValue;
    detail::scratch_slices scratch;
    if constexpr (verify::needs_scratch<Verifier>) {
        if (trees.largest < 1) return cudaErrorInvalidValue;
        scratch = {static_cast<std::byte*>(workspace),
                   verify::scratch_bytes<Verifier>(trees.largest, static_cast<std::int32_t>(out.path_stride))};
    }
    int const prefetched = detail::prefetched_rows(trees.requests, options);
    detail::partition parts;
    if (!detail::divide(workspace, workspace_size, trees.requests, scratch.each, parts)) return cudaErrorInvalidValue;
    auto const with = [&](auto kernel_of_one, auto kernel_of_several, auto kernel_of_grid) {
        detail::shape shape;
        if (cudaError_t const e =
                detail::choose_for(kernel_of_one, trees.requests, vocabulary, options, parts.has_grid, shape))
            return e;
        if constexpr (!std::is_same_v<decltype(kernel_of_grid), std::nullptr_t>) {
            if (shape.grid) {
                if (cudaError_t const e = parts.grid.clear(trees.requests, stream)) return e;
                return detail::launch(kernel_of_grid, trees.requests, shape, detail::row_threads, stream, verifier,
                                      fitting, requests, target, draft, vocabulary, out, scratch, prefetched,
                                      parts.grid, shape.ranks);
            }
        }
        return detail::launch(shape.split ? kernel_of_several : kernel_of_one, trees.requests, shape,
                              detail::row_threads, stream, verifier, fitting, requests, target, draft, vocabulary, out,
                              scratch, prefetched);
    };
    if (detail::rows_are_aligned(target) && detail::rows_are_aligned(draft))
        return with(detail::verify_kernel<aligned<16>, 1, Verifier, Target, Draft>,
                    detail::verify_kernel<aligned<16>, detail::short_split, Verifier, Target, Draft>,
                    detail::verify_grid_kernel<aligned<16>, Verifier, Target, Draft>);
    // One shape serves rows that are read entry by entry, and those never grid-wide.
    parts.has_grid = false;
    return with(detail::verify_kernel<contiguous, detail::short_split, Verifier, Target, Draft>,
                detail::verify_kernel<contiguous, detail::short_split, Verifier, Target, Draft>, nullptr);
}

}  // namespace MULTIDRAFT_NAMESPACE::cuda
