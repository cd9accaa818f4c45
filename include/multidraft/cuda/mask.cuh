// Ancestor masks and positions of a batch of trees, written on a CUDA device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "multidraft/base/config.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/batch/tree_batch.hpp"
#include "multidraft/cuda/for_each_piece.cuh"
#include "multidraft/cuda/mask_rows.hpp"

namespace MULTIDRAFT_NAMESPACE::cuda {

/// Writes the packed masks of all trees: row `trees.offsets[b] + i` of `words` is that of node i of request b (see
/// `mask_view`). Rows are `row_words` words apart.
///
/// `row_words` must hold the largest tree: a bit per node. One thread per word, O(depth + log R) each. Checks nothing,
/// allocates nothing and does not synchronise; returns the launch's error.
[[nodiscard]] inline cudaError_t write_masks(cudaStream_t stream, tree_batch const& trees, std::uint64_t* words,
                                             std::int64_t row_words) {
    return detail::for_each(trees.nodes * row_words, stream, detail::packed_word{trees, words, row_words});
}

/// Writes the position of every node: `out[trees.offsets[b] + i]` = `positions[b]` + the depth of node i of request b.
[[nodiscard]] inline cudaError_t write_positions(cudaStream_t stream, tree_batch const& trees,
                                                 std::int32_t const* positions, std::int32_t* out) {
    return detail::for_each(trees.nodes, stream, detail::position_of_node{trees, positions, out});
}

/// Writes the dense masks of all trees from the packed ones: `attends` where a node attends, `hidden` where it does
/// not. The row of node r of the batch begins at `out.data + r * out.row_stride`; see `dense_rows` for its columns.
///
/// Rows are written 16 bytes at a time if they are aligned.
template <class T>
[[nodiscard]] cudaError_t write_dense(cudaStream_t stream, tree_batch const& trees, std::uint64_t const* words,
                                      std::int64_t row_words, dense_rows<T> const& out, T attends, T hidden) {
    constexpr std::int64_t width = 16 / static_cast<std::int64_t>(sizeof(T));
    std::int64_t const runs = (out.columns + width - 1) / width;
    return detail::for_each(trees.nodes * runs, stream,
                            detail::dense_run<T>{trees, words, row_words, out, runs, attends, hidden});
}

/// Writes the dense masks as bytes: 1 where a node attends, else 0.
[[nodiscard]] inline cudaError_t write_bytes(cudaStream_t stream, tree_batch const& trees, std::uint64_t const* words,
                                             std::int64_t row_words, dense_rows<std::uint8_t> const& out) {
    return write_dense(stream, trees, words, row_words, out, std::uint8_t{1}, std::uint8_t{0});
}

/// Writes the dense masks as an additive bias: 0 where a node attends, else -inf. T: float, `float16`, `bfloat16`.
template <class T>
[[nodiscard]] cudaError_t write_bias(cudaStream_t stream, tree_batch const& trees, std::uint64_t const* words,
                                     std::int64_t row_words, dense_rows<T> const& out) {
    return write_dense(stream, trees, words, row_words, out, T(0.0F), T(minus_infinity<float>));
}

}  // namespace MULTIDRAFT_NAMESPACE::cuda
