// Trees of a batch from parents in any order, their offsets, and the best nodes of each tree, by CUB's sorts and scans.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>
#include <thrust/iterator/transform_iterator.h>

#include <cstddef>
#include <cstdint>
#include <cub/device/device_merge_sort.cuh>
#include <cub/device/device_scan.cuh>
#include <string>

#include "multidraft/base/config.hpp"
#include "multidraft/batch/arguments.hpp"
#include "multidraft/batch/detail/refusals.hpp"
#include "multidraft/batch/execution_policy.hpp"
#include "multidraft/cuda/level_order.hpp"
#include "multidraft/cuda/on.cuh"

namespace MULTIDRAFT_NAMESPACE::cuda {

namespace detail {

struct set_first {
    std::int64_t* offsets;
    __device__ void operator()(std::int64_t) const { offsets[0] = 0; }
};

/// Inclusive prefix sums of the sizes, in 64 bits. With a null workspace: only the size it needs.
[[nodiscard]] inline cudaError_t scan_sizes(void* workspace, std::size_t& workspace_size, std::int32_t const* sizes,
                                            std::int32_t requests, std::int64_t* sums, cudaStream_t stream) {
    return cub::DeviceScan::InclusiveScan(workspace, workspace_size, thrust::make_transform_iterator(sizes, to_long{}),
                                          sums, add_long{}, requests, stream);
}

/// The error of a workspace that is missing or has less than `wanted` bytes.
[[nodiscard]] inline cudaError_t refused_workspace(void const* workspace, std::size_t size, std::size_t wanted) {
    if (workspace == nullptr) size = 0;
    if (size >= wanted) return cudaSuccess;
    return stream_policy::refused(
        {"workspace_size", -1, std::to_string(size), std::to_string(wanted) + " bytes are needed"});
}

/// Allocates parts of a workspace, each aligned to 256 bytes; with a null workspace only counts the bytes.
class workspace_parts {
public:
    explicit workspace_parts(void* workspace) noexcept : begin_(static_cast<std::byte*>(workspace)) {}

    template <class T>
    [[nodiscard]] T* take(std::int64_t count) noexcept {
        return static_cast<T*>(take_bytes(static_cast<std::size_t>(count) * sizeof(T)));
    }
    [[nodiscard]] void* take_bytes(std::size_t bytes) noexcept {
        void* const part = begin_ == nullptr ? nullptr : begin_ + used_;
        used_ += (bytes + 255) / 256 * 256;
        return part;
    }
    [[nodiscard]] std::size_t used() const noexcept { return used_; }

private:
    std::byte* begin_;
    std::size_t used_ = 0;
};

/// Bytes of workspace that CUB's merge sort of `nodes` keys needs.
template <class Less>
[[nodiscard]] cudaError_t sort_bytes(std::int64_t nodes, std::size_t& bytes) {
    bytes = 0;
    return cub::DeviceMergeSort::SortKeys(nullptr, bytes, static_cast<std::int64_t*>(nullptr), nodes, Less{});
}

/// The parts of the workspace of `build_trees`; of a null workspace only their total size.
struct build_parts {
    build_scratch scratch;
    void* sort = nullptr;
    std::size_t sort_size = 0;
    std::size_t bytes = 0;

    [[nodiscard]] static cudaError_t of(void* workspace, std::int64_t nodes, build_parts& result) {
        if (cudaError_t const e = sort_bytes<before_in_level_order>(nodes, result.sort_size)) return e;
        workspace_parts parts(workspace);
        result.scratch.keys = parts.take<std::int64_t>(nodes);
        result.scratch.request = parts.take<std::int32_t>(nodes);
        result.scratch.depth = parts.take<std::int32_t>(nodes);
        result.scratch.place = parts.take<node_id>(nodes);
        result.sort = parts.take_bytes(result.sort_size);
        result.bytes = parts.used();
        return cudaSuccess;
    }
};

struct best_parts {
    std::int64_t* keys = nullptr;
    std::int32_t* request = nullptr;
    void* sort = nullptr;
    std::size_t sort_size = 0;
    std::size_t bytes = 0;

    [[nodiscard]] static cudaError_t of(void* workspace, std::int64_t nodes, best_parts& result) {
        if (cudaError_t const e = sort_bytes<before_by_score>(nodes, result.sort_size)) return e;
        workspace_parts parts(workspace);
        result.keys = parts.take<std::int64_t>(nodes);
        result.request = parts.take<std::int32_t>(nodes);
        result.sort = parts.take_bytes(result.sort_size);
        result.bytes = parts.used();
        return cudaSuccess;
    }
};

/// What `refuse` throws, as an error of the runtime.
template <class Refuse>
[[nodiscard]] cudaError_t refusal_of(Refuse const& refuse) {
    return multidraft::detail::checked(on(nullptr), refuse, [] { return cudaSuccess; });
}

}  // namespace detail

/// Bytes of device memory that `build_trees` needs as workspace, for `nodes` nodes in all; 0 if CUB finds no device.
[[nodiscard]] inline std::size_t build_workspace_size(std::int64_t nodes) {
    detail::build_parts parts;
    return detail::build_parts::of(nullptr, nodes, parts) == cudaSuccess ? parts.bytes : 0;
}

/// Sorts the nodes of trees into level order, for example those of a tree that was grown best-first or given as a list
/// of edges.
///
/// `trees`: `parents` are nodes of the input, -1 for the root, which may be anywhere. The children of a node keep their
/// order, so a law that depends on the order of draws is preserved. `out`: arrays for the same number of nodes;
/// `out.order[k]` is the input node of a request's node k, for rows and caches in input order. A request is not a tree
/// if its `faults` is not 0.
///
/// One merge sort, O(N log N depth); before it, one thread per request, O(the root's place), and one per node,
/// O(depth). All memory is the device's, the workspace aligned to 256 bytes. Neither allocates nor synchronises; may be
/// captured in a graph.
[[nodiscard]] inline cudaError_t build_trees(void* workspace, std::size_t workspace_size, cudaStream_t stream,
                                             tree_batch const& trees, built_trees const& out) {
    auto const refuse_bad_arguments = [&] {
        multidraft::detail::refuse_bad_trees(trees, out.tokens != nullptr);
        if (trees.requests > 0) multidraft::detail::refuse_null(out.parents, "out.parents");
    };
    if (cudaError_t const e = detail::refusal_of(refuse_bad_arguments)) return e;
    if (trees.requests == 0) return cudaSuccess;
    detail::build_parts parts;
    if (cudaError_t const e = detail::build_parts::of(workspace, trees.nodes, parts)) return e;
    if (cudaError_t const e = detail::refused_workspace(workspace, workspace_size, parts.bytes)) return e;
    if (cudaError_t const e = for_each(on(stream), trees.requests, detail::find_root{trees, parts.scratch})) return e;
    if (cudaError_t const e = for_each(on(stream), trees.nodes, detail::locate_node{trees, parts.scratch})) return e;
    if (cudaError_t const e =
            cub::DeviceMergeSort::SortKeys(parts.sort, parts.sort_size, parts.scratch.keys, trees.nodes,
                                           detail::before_in_level_order{trees, parts.scratch}, stream))
        return e;
    if (cudaError_t const e = for_each(on(stream), trees.nodes, detail::number_node{trees, parts.scratch})) return e;
    if (cudaError_t const e = for_each(on(stream), trees.nodes, detail::write_node{trees, parts.scratch, out}))
        return e;
    if (out.faults == nullptr) return cudaSuccess;
    return for_each(on(stream), trees.requests, detail::count_lost{trees, parts.scratch, out.faults});
}

/// Bytes of device memory that `write_offsets` needs as workspace; 0 if CUB finds no device.
[[nodiscard]] inline std::size_t offsets_workspace_size(std::int32_t requests) {
    std::size_t bytes = 0;
    return detail::scan_sizes(nullptr, bytes, nullptr, requests, nullptr, nullptr) == cudaSuccess ? bytes : 0;
}

/// Writes the offsets of a ragged batch from the sizes of its trees: offsets[0] = 0, offsets[b + 1] = offsets[b] +
/// sizes[b], in 64 bits. Workspace, allocation and graphs: as for `build_trees`.
[[nodiscard]] inline cudaError_t write_offsets(void* workspace, std::size_t workspace_size, cudaStream_t stream,
                                               std::int32_t const* sizes, std::int32_t requests,
                                               std::int64_t* offsets) {
    if (requests < 0)
        return stream_policy::refused({"requests", -1, std::to_string(requests), "a batch has 0 requests or more"});
    std::size_t wanted = 0;
    if (requests > 0)
        if (cudaError_t const e = detail::scan_sizes(nullptr, wanted, nullptr, requests, nullptr, stream)) return e;
    if (cudaError_t const e = detail::refused_workspace(workspace, workspace_size, wanted)) return e;
    if (cudaError_t const e = for_each(on(stream), 1, detail::set_first{offsets})) return e;
    if (requests == 0) return cudaSuccess;
    return detail::scan_sizes(workspace, workspace_size, sizes, requests, offsets + 1, stream);
}

/// Bytes of device memory that `write_best` needs as workspace, for `nodes` nodes in all; 0 if CUB finds no device.
[[nodiscard]] inline std::size_t best_workspace_size(std::int64_t nodes) {
    detail::best_parts parts;
    return detail::best_parts::of(nullptr, nodes, parts) == cudaSuccess ? parts.bytes : 0;
}

/// Writes the `wanted` nodes of each request with the largest scores to `out[b * wanted] ..`, best first, ties to the
/// lower node, NaN last; `none` where a request has fewer nodes. `scores`: one per node. For pruning trees to their
/// most promising nodes; if scores depend on the draws, the remaining nodes no longer have the sampler's law: verify
/// them with `verify::naive`. Workspace, allocation and graphs: as for `build_trees`.
[[nodiscard]] inline cudaError_t write_best(void* workspace, std::size_t workspace_size, cudaStream_t stream,
                                            tree_batch const& trees, float const* scores, std::int32_t wanted,
                                            node_id* out) {
    auto const refuse_bad_arguments = [&] {
        multidraft::detail::refuse_bad_counts(trees);
        if (trees.requests > 0) multidraft::detail::refuse_null(scores, "scores");
        if (trees.requests > 0) multidraft::detail::refuse_null(out, "out");
    };
    if (cudaError_t const e = detail::refusal_of(refuse_bad_arguments)) return e;
    if (trees.requests == 0) return cudaSuccess;
    detail::best_parts parts;
    if (cudaError_t const e = detail::best_parts::of(workspace, trees.nodes, parts)) return e;
    if (cudaError_t const e = detail::refused_workspace(workspace, workspace_size, parts.bytes)) return e;
    if (wanted < 1)
        return stream_policy::refused({"wanted", -1, std::to_string(wanted), "1 node or more is wanted of a tree"});
    if (cudaError_t const e =
            for_each(on(stream), trees.nodes, detail::init_score_key{trees, parts.keys, parts.request}))
        return e;
    if (cudaError_t const e = cub::DeviceMergeSort::SortKeys(parts.sort, parts.sort_size, parts.keys, trees.nodes,
                                                             detail::before_by_score{scores, parts.request}, stream))
        return e;
    return for_each(on(stream), std::int64_t{trees.requests} * wanted,
                    detail::write_best_node{trees, parts.keys, wanted, out});
}

}  // namespace MULTIDRAFT_NAMESPACE::cuda
