// Drawing candidates on a device: all nodes of a level of all trees in one launch, straight from logits.
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

template <class Layout, int Split, class Sampler, class T>
__global__ void __launch_bounds__(row_threads, 1)
    draft_kernel(Sampler sampler, draft_batch batch, request_batch requests, logits<T> rows, index_t vocabulary) {
    using group_type = cluster_group<row_threads, Split>;
    __shared__ typename group_type::storage shared;
    group_type const g({}, shared);
    auto const e = static_cast<std::int32_t>(static_cast<int>(blockIdx.x) / g.lanes().ranks());
    draft_entry<Layout>(g, sampler, e, batch, requests, rows, vocabulary);
}

}  // namespace detail

/// Bytes of device memory that `draft` needs. None in this version; ask all the same.
[[nodiscard]] inline std::size_t draft_workspace_size(std::int32_t /*entries*/, index_t /*vocabulary*/) noexcept {
    return 0;
}

/// Draws the children of `batch.entries` nodes with a sampler of `multidraft/draft/`, such as `draft::sequential{}`:
/// the normaliser and the draws in one kernel, a block or a cluster of blocks a node.
///
/// `rows`: row e holds the logits of entry e, float, `half` or `bfloat16`. The tokens are those that the host draws
/// from the same seed. Where a row's support is smaller than the children wanted, the rest are `none`; `verify` takes a
/// tree with such children as it is. See `verify` for what holds of every launch.
template <class Sampler, class T>
[[nodiscard]] cudaError_t draft(void* /*workspace*/, std::size_t /*workspace_size*/, cudaStream_t stream,
                                Sampler const& sampler, draft_batch const& batch, request_batch const& requests,
                                logits<T> const& rows, index_t vocabulary, launch_options const& options = {}) {
    auto const with = [&](auto kernel_of_one, auto kernel_of_several) {
        detail::shape shape;
        if (cudaError_t const e = detail::choose_for(kernel_of_one, batch.entries, vocabulary, options, shape))
            return e;
        return detail::launch(shape.split ? kernel_of_several : kernel_of_one, batch.entries, shape.ranks,
                              detail::row_threads, stream, sampler, batch, requests, rows, vocabulary);
    };
    if (detail::rows_are_aligned(rows))
        return with(detail::draft_kernel<aligned<16>, 1, Sampler, T>,
                    detail::draft_kernel<aligned<16>, detail::short_split, Sampler, T>);
    // One shape serves rows that are read entry by entry.
    return with(detail::draft_kernel<contiguous, detail::short_split, Sampler, T>,
                detail::draft_kernel<contiguous, detail::short_split, Sampler, T>);
}

}  // namespace multidraft::cuda
