// Workspace sizes; launches for masks, positions, level order and caches.
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>

#include "cuda_kernels.hpp"
#include "multidraft/base/config.hpp"
#include "multidraft/base/float16.hpp"
#include "multidraft/batch/compact_caches.hpp"
#include "multidraft/batch/masks.hpp"
#include "multidraft/cuda/build_trees.cuh"
#include "multidraft/cuda/launch.cuh"
#include "multidraft/cuda/on.cuh"

namespace MULTIDRAFT_NAMESPACE::c_interface {

std::size_t workspace_on_stream(std::int32_t requests, std::size_t each) {
    return cuda::detail::workspace_size(requests, each);
}

std::size_t scratch_on_stream(std::int32_t requests, std::size_t each) {
    return cuda::detail::scratch_size(requests, each);
}

cudaError_t write_masks_on_stream(cudaStream_t stream, tree_batch const& trees, std::uint64_t* words,
                                  std::int64_t row_words) {
    return write_masks(cuda::on(stream), trees, words, row_words);
}

cudaError_t write_positions_on_stream(cudaStream_t stream, tree_batch const& trees, std::int32_t const* positions,
                                      std::int32_t* out) {
    return write_positions(cuda::on(stream), trees, positions, out);
}

cudaError_t write_bytes_on_stream(cudaStream_t stream, tree_batch const& trees, std::uint64_t const* words,
                                  std::int64_t row_words, dense_masks<std::uint8_t> const& out) {
    return write_bytes(cuda::on(stream), trees, words, row_words, out);
}

template <class T>
cudaError_t write_bias_on_stream(cudaStream_t stream, tree_batch const& trees, std::uint64_t const* words,
                                 std::int64_t row_words, dense_masks<T> const& out) {
    return write_bias(cuda::on(stream), trees, words, row_words, out);
}

template cudaError_t write_bias_on_stream(cudaStream_t, tree_batch const&, std::uint64_t const*, std::int64_t,
                                          dense_masks<float> const&);
template cudaError_t write_bias_on_stream(cudaStream_t, tree_batch const&, std::uint64_t const*, std::int64_t,
                                          dense_masks<float16> const&);
template cudaError_t write_bias_on_stream(cudaStream_t, tree_batch const&, std::uint64_t const*, std::int64_t,
                                          dense_masks<bfloat16> const&);

cudaError_t level_order_workspace_on_stream(std::int64_t nodes, std::size_t& bytes) {
    cuda::detail::build_parts parts;
    if (cudaError_t const e = cuda::detail::build_parts::of(nullptr, nodes, parts)) return e;
    bytes = parts.bytes;
    return cudaSuccess;
}

cudaError_t level_order_on_stream(cudaStream_t stream, tree_batch const& trees, built_trees const& out, void* memory,
                                  std::size_t memory_size) {
    return cuda::build_trees(memory, memory_size, stream, trees, out);
}

cudaError_t compact_on_stream(cudaStream_t stream, contiguous_cache const& cache, kept_batch const& kept) {
    return compact_caches(cuda::on(stream), cache, kept);
}

cudaError_t compact_on_stream(cudaStream_t stream, paged_cache const& cache, kept_batch const& kept) {
    return compact_caches(cuda::on(stream), cache, kept);
}

}  // namespace MULTIDRAFT_NAMESPACE::c_interface
