// The functions compiled in the .cu files, one method and one type of rows per file: launches on a stream.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "multidraft/base/config.hpp"
#include "multidraft/batch/arguments.hpp"
#include "multidraft/batch/compact_caches.hpp"
#include "multidraft/batch/level_batch.hpp"
#include "multidraft/batch/linked_trees.hpp"
#include "multidraft/batch/masks.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/batch/validation.hpp"

namespace MULTIDRAFT_NAMESPACE::c_interface {

/// `draft` may be null for methods that do not read it.
template <class Method, class T>
cudaError_t verify_on_stream(cudaStream_t stream, tree_batch const& trees, logit_batch<T> const& target,
                             logit_batch<T> const* draft, request_batch const& requests, verdict_batch const& out,
                             workspace const& scratch);

/// `method`: its index in the library's list.
template <class T>
cudaError_t draft_on_stream(std::size_t method, cudaStream_t stream, level_batch const& level,
                            logit_batch<T> const& rows, request_batch const& requests, children_batch const& out,
                            workspace const& scratch);

/// `report` is in device memory. A null `draft` is not checked.
template <class T>
cudaError_t validate_on_stream(std::size_t method, cudaStream_t stream, tree_batch const& trees,
                               logit_batch<T> const& target, logit_batch<T> const* draft, request_batch const& requests,
                               validation_report* report);

/// Bytes of device memory for `requests` requests (entries of a level) with `each` bytes of scratch.
std::size_t workspace_on_stream(std::int32_t requests, std::size_t each);
/// The part of these bytes that is the requests' scratch.
std::size_t scratch_on_stream(std::int32_t requests, std::size_t each);

cudaError_t write_masks_on_stream(cudaStream_t stream, tree_batch const& trees, std::uint64_t* words,
                                  std::int64_t row_words);
cudaError_t write_positions_on_stream(cudaStream_t stream, tree_batch const& trees, std::int32_t const* positions,
                                      std::int32_t* out);
cudaError_t write_bytes_on_stream(cudaStream_t stream, tree_batch const& trees, std::uint64_t const* words,
                                  std::int64_t row_words, dense_masks<std::uint8_t> const& out);
template <class T>
cudaError_t write_bias_on_stream(cudaStream_t stream, tree_batch const& trees, std::uint64_t const* words,
                                 std::int64_t row_words, dense_masks<T> const& out);
cudaError_t level_order_workspace_on_stream(std::int64_t nodes, std::size_t& bytes);
cudaError_t level_order_on_stream(cudaStream_t stream, tree_batch const& trees, built_trees const& out, void* memory,
                                  std::size_t memory_size);
cudaError_t compact_on_stream(cudaStream_t stream, contiguous_cache const& cache, kept_batch const& kept);
cudaError_t compact_on_stream(cudaStream_t stream, paged_cache const& cache, kept_batch const& kept);

}  // namespace MULTIDRAFT_NAMESPACE::c_interface
