// Compacting the caches of a batch on the device, in place.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <type_traits>

#include "multidraft/cuda/compact_pieces.hpp"
#include "multidraft/cuda/mask.cuh"

namespace MULTIDRAFT_NAMESPACE::cuda {

/// Moves the kept nodes' entries together behind the root's, in place: for every request, plane and kept node k, entry
/// `bases[b] + nodes[k]` to entry `bases[b] + first + k`. Takes what `verify` wrote without a look at it.
///
/// `cache`: `contiguous_cache` or `paged_cache`; no two planes or requests share an entry that moves. Pieces of 16
/// bytes where pointer and strides allow it, else of 8, 4, 2 or 1. A thread moves one piece of every entry; entries
/// that stay where they are are not touched. Neither allocates nor synchronises; may be captured in a graph.
template <class Cache>
[[nodiscard]] cudaError_t compact(cudaStream_t stream, Cache const& cache, kept_batch const& kept) {
    if (kept.requests == 0) return cudaSuccess;
    if (cache.entry_bytes < 1 || cache.entry_stride < cache.entry_bytes) return cudaErrorInvalidValue;
    std::int64_t planes = 1;
    auto together = reinterpret_cast<std::uintptr_t>(cache.data) | static_cast<std::uintptr_t>(cache.entry_stride) |
                    static_cast<std::uintptr_t>(cache.entry_bytes);
    if constexpr (std::is_same_v<Cache, paged_cache>) {
        if (cache.page_entries < 1) return cudaErrorInvalidValue;
        together |= static_cast<std::uintptr_t>(cache.page_stride);
    } else {
        together |= static_cast<std::uintptr_t>(cache.request_stride);
    }
    for (auto const& axis : cache.axes) {
        if (axis.count < 1) return cudaErrorInvalidValue;
        if (axis.count > 1 && axis.stride == 0) return cudaErrorInvalidValue;  // one plane twice
        planes *= axis.count;
        if (axis.count > 1) together |= static_cast<std::uintptr_t>(axis.stride);
    }
    auto const with = [&]<class Piece>(Piece) {
        std::int64_t const pieces = cache.entry_bytes / static_cast<std::int64_t>(sizeof(Piece));
        return detail::for_each(pieces * planes * kept.requests, stream,
                                detail::compact_piece<Piece, Cache>{cache, kept, pieces, planes});
    };
    if (together % 16 == 0) return with(detail::bytes_16{});
    if (together % 8 == 0) return with(std::uint64_t{});
    if (together % 4 == 0) return with(std::uint32_t{});
    if (together % 2 == 0) return with(std::uint16_t{});
    return with(std::uint8_t{});
}

}  // namespace MULTIDRAFT_NAMESPACE::cuda
