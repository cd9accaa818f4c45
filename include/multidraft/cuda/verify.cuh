// Verifying a batch of draft trees on a device: one launch, a block or a cluster of blocks a tree.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "multidraft/core/config.hpp"
#include "multidraft/cuda/batch.hpp"
#include "multidraft/cuda/cluster_group.cuh"
#include "multidraft/cuda/launch.cuh"
#include "multidraft/cuda/verify_tree.hpp"

namespace multidraft::cuda {

namespace detail {

template <class Layout, int Split, class Verifier, class Target, class Draft>
__global__ void __launch_bounds__(row_threads, 1)
    verify_kernel(Verifier verifier, tree_batch trees, request_batch requests, Target target, Draft draft,
                  index_t vocabulary, verdict_batch out) {
    using group_type = cluster_group<row_threads, Split>;
    __shared__ typename group_type::storage shared;
    group_type const g({}, shared);
    auto const b = static_cast<std::int32_t>(static_cast<int>(blockIdx.x) / g.lanes().ranks());
    verify_request<Layout>(g, verifier, b, trees, requests, target, draft, vocabulary, out);
}

}  // namespace detail

/// Bytes of device memory that `verify` needs. None in this version; ask all the same.
[[nodiscard]] inline std::size_t verify_workspace_size(std::int32_t /*requests*/, index_t /*vocabulary*/) noexcept {
    return 0;
}

/// Verifies `trees.requests` trees with a verifier of `multidraft/verify/`, such as
/// `verify::recursive_rejection<law::sequential>{}`.
///
/// - `target`: `logits<T>` or `probability_batch<T>`, T float, `half` or `bfloat16`; row `trees.offsets[b] + i` is the
///   target's distribution after node i of request b.
/// - `draft`: the same of the draft, or `prepared<T>` with the row states that `draft` wrote (one pass over memory less
///   for each node on the path), or `no_rows{}` for `verify::naive`.
/// - `out`: see `verdict_batch`.
///
/// All pointers are to device memory. The decisions have the bits of the host's, whatever the batch and the shape of
/// the launch. Neither allocates nor synchronises; may be captured in a graph. Only the rows on the accepted path are
/// read. Nothing is checked (see `validate`), but a row that is no distribution gives the token `none`.
///
/// Rows that begin at multiples of 16 bytes are read 16 bytes at a time. Returns the launch's error.
template <class Verifier, class Target, class Draft>
[[nodiscard]] cudaError_t verify(void* /*workspace*/, std::size_t /*workspace_size*/, cudaStream_t stream,
                                 Verifier const& verifier, tree_batch const& trees, request_batch const& requests,
                                 Target const& target, Draft const& draft, index_t vocabulary, verdict_batch const& out,
                                 launch_options const& options = {}) {
    auto const with = [&](auto kernel_of_one, auto kernel_of_several) {
        detail::shape shape;
        if (cudaError_t const e = detail::choose_for(kernel_of_one, trees.requests, vocabulary, options, shape))
            return e;
        return detail::launch(shape.split ? kernel_of_several : kernel_of_one, trees.requests, shape.ranks,
                              detail::row_threads, stream, verifier, trees, requests, target, draft, vocabulary, out);
    };
    if (detail::rows_are_aligned(target) && detail::rows_are_aligned(draft))
        return with(detail::verify_kernel<aligned<16>, 1, Verifier, Target, Draft>,
                    detail::verify_kernel<aligned<16>, detail::short_split, Verifier, Target, Draft>);
    // One shape serves rows that are read entry by entry.
    return with(detail::verify_kernel<contiguous, detail::short_split, Verifier, Target, Draft>,
                detail::verify_kernel<contiguous, detail::short_split, Verifier, Target, Draft>);
}

}  // namespace multidraft::cuda
