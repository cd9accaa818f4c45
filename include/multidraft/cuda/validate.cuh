// Checking a batch on the device before it is verified: the first bad argument, by request, index and value.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "multidraft/core/arithmetic.hpp"
#include "multidraft/core/config.hpp"
#include "multidraft/cuda/batch.hpp"
#include "multidraft/cuda/block_group.cuh"
#include "multidraft/cuda/launch.cuh"
#include "multidraft/cuda/mask.cuh"
#include "multidraft/cuda/mask_rows.hpp"
#include "multidraft/cuda/validation.hpp"
#include "multidraft/draft/law.hpp"

namespace MULTIDRAFT_NAMESPACE::cuda {

namespace detail {

using key_type = unsigned long long;

struct clear_key {
    key_type* key;
    __device__ void operator()(std::int64_t) const { *key = ~key_type{0}; }
};

/// A warp's worth of threads a request.
template <class Law>
struct check_requests {
    drafted_batch<Law> drafts;
    request_batch requests;
    std::int64_t nodes;
    index_t vocabulary;
    key_type* key;

    __device__ void operator()(std::int64_t k) const {
        tree_batch const& trees = drafts.trees;
        auto const b = static_cast<std::int32_t>(k / warp_size);
        auto const lane = static_cast<node_id>(k % warp_size);
        key_type first = lane == 0 ? key_of(b, check_request(trees, requests, nodes, b)) : ~key_type{0};
        if (offsets_are_valid(trees, nodes, b)) {
            auto const size = static_cast<node_id>(trees.offsets[b + 1] - trees.offsets[b]);
            for (node_id v = lane; v < size; v += warp_size) {
                key_type const here = key_of(b, check_node(drafts, vocabulary, b, v));
                first = here < first ? here : first;
            }
        }
        if (first != ~key_type{0}) atomicMin(key, first);
    }
};

inline constexpr int check_split = 4;

/// One row a block, blocks taking turns; rows of requests whose offsets are wrong are not looked at.
template <class Rows>
__global__ void __launch_bounds__(row_threads) check_rows_kernel(tree_batch trees, Rows rows, std::int64_t nodes,
                                                                 index_t vocabulary, checked what, key_type* key) {
    using group_type = block_group<row_threads, check_split>;
    __shared__ typename group_type::storage shared;
    group_type const g({}, shared);
    for (std::int64_t row = blockIdx.x; row < nodes; row += gridDim.x) {
        std::int32_t const b = request_of(trees, row);
        std::int64_t const v = row - trees.offsets[b];
        if (!offsets_are_valid(trees, nodes, b) || v < 0 || row >= trees.offsets[b + 1]) continue;
        // The draft has rows where there are children.
        if (what == checked::draft && trees(b).children(static_cast<node_id>(v)).empty()) continue;
        fault const f = check_row_of(g, rows, row, vocabulary, what, static_cast<node_id>(v));
        if (g.leader() && f.what != checked::nothing) atomicMin(key, key_of(b, f));
    }
}

/// Finds again what the smallest key stands for.
template <class Law, class Target, class Draft>
__global__ void __launch_bounds__(row_threads)
    report_kernel(drafted_batch<Law> drafts, request_batch requests, Target target, Draft draft, std::int64_t nodes,
                  index_t vocabulary, key_type const* key, validation_report* out) {
    using group_type = block_group<row_threads, check_split>;
    __shared__ typename group_type::storage shared;
    group_type const g({}, shared);
    key_type const first = *key;
    validation_report report = report_of(g, drafts, requests, target, draft, nodes, vocabulary, first);
    if (first == ~key_type{0}) {
        if (arithmetic_fault const fault = check_arithmetic(); fault != arithmetic_fault::nothing) {
            report.what = checked::arithmetic;
            report.value = static_cast<double>(fault);
        }
    }
    if (g.leader()) *out = report;
}

}  // namespace detail

/// Bytes of device memory that `validate` needs.
[[nodiscard]] inline std::size_t validate_workspace_size() noexcept { return sizeof(detail::key_type); }

/// Checks what `verify` takes and writes the first fault to `*report`, in device memory: offsets, positions, sampling,
/// parents, tokens, what the law says of children (different tokens, how many are certain), and every row of target and
/// draft (the draft's where a node has children). `nodes` is what `trees.offsets[trees.requests]` should be.
/// `workspace` is aligned to 8 bytes. `cudaErrorInvalidValue` when the law has certain children and the batch does not
/// say which. A batch of no requests has no fault of its own. Where there is none, the arithmetic of the device code is
/// looked at (`check_arithmetic`), which no macro tells of: nvcc's -use_fast_math, say.
///
/// One pass over all rows, so it is for bringing an engine up, not for every step. Neither allocates nor synchronises;
/// read the report when the stream has come past, and give it to `refuse_reported`.
template <draft_law Law, class Target, class Draft>
[[nodiscard]] cudaError_t validate(void* workspace, std::size_t workspace_size, cudaStream_t stream,
                                   drafted_batch<Law> const& drafts, std::int64_t nodes, request_batch const& requests,
                                   Target const& target, Draft const& draft, index_t vocabulary,
                                   validation_report* report) {
    tree_batch const& trees = drafts.trees;
    if (workspace == nullptr || workspace_size < validate_workspace_size() || trees.requests < 0 || nodes < 0 ||
        (trees.requests == 0 && nodes > 0) || vocabulary < 1 || vocabulary > max_row_size)
        return cudaErrorInvalidValue;
    if constexpr (counts_certain<Law>)
        if (trees.requests > 0 && trees.certain == nullptr) return cudaErrorInvalidValue;
    auto* const key = static_cast<detail::key_type*>(workspace);
    std::int64_t const blocks = nodes < 65536 ? nodes : 65536;
    if (cudaError_t const e = detail::for_each(1, stream, detail::clear_key{key})) return e;
    if (cudaError_t const e = detail::for_each(std::int64_t{trees.requests} * warp_size, stream,
                                               detail::check_requests<Law>{drafts, requests, nodes, vocabulary, key}))
        return e;
    if (cudaError_t const e = detail::launch_blocks(detail::check_rows_kernel<Target>, blocks, detail::row_threads,
                                                    stream, trees, target, nodes, vocabulary, checked::target, key))
        return e;
    if constexpr (!std::is_same_v<Draft, no_draft_rows>)
        if (cudaError_t const e = detail::launch_blocks(detail::check_rows_kernel<Draft>, blocks, detail::row_threads,
                                                        stream, trees, draft, nodes, vocabulary, checked::draft, key))
            return e;
    detail::key_type const* const found = key;
    return detail::launch_blocks(detail::report_kernel<Law, Target, Draft>, 1, detail::row_threads, stream, drafts,
                                 requests, target, draft, nodes, vocabulary, found, report);
}

}  // namespace MULTIDRAFT_NAMESPACE::cuda
