// Compacting the caches of a batch in place, all layers in one call.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/batch/caches.hpp"
#include "multidraft/batch/detail/refusals.hpp"
#include "multidraft/batch/execution_policy.hpp"
#include "multidraft/batch/host_threads.hpp"

namespace MULTIDRAFT_NAMESPACE {

namespace detail {

/// Moves all pieces; each thread moves one piece of every entry that moves.
template <execution_policy P, class Cache>
auto compact_by_pieces(P const& policy, Cache const& cache, kept_batch const& kept) {
    return with_piece(cache, [&]<class Piece>(Piece) {
        std::int64_t const planes = planes_of(cache);
        std::int64_t const pieces = cache.entry_bytes / static_cast<std::int64_t>(sizeof(Piece));
        return for_each(policy, pieces * planes * kept.requests,
                        compact_piece<Piece, Cache>{cache, kept, pieces, planes});
    });
}

/// Refuses invalid sizes of a cache, and missing arrays.
template <class Cache>
void refuse_bad_cache(Cache const& cache, kept_batch const& kept) {
    if (cache.list == nullptr) refuse_null(cache.data, "cache.data");
    if (cache.list != nullptr && cache.listed < 1) refuse("cache.listed", cache.listed, "a list has 1 address or more");
    if (cache.entry_bytes < 1) refuse("cache.entry_bytes", cache.entry_bytes, "an entry has 1 byte or more");
    if (cache.entry_stride < cache.entry_bytes)
        refuse("cache.entry_stride", cache.entry_stride, "entries would overlap");
    if constexpr (requires { cache.page_entries; }) {
        if (cache.page_entries < 1) refuse("cache.page_entries", cache.page_entries, "a page has 1 entry or more");
        refuse_null(cache.table, "cache.table");
    }
    for (int a = 0; a < Cache::dimensions; ++a) {
        if (cache.axes[a].count < 1) refuse("cache.axes", a, cache.axes[a].count, "a dimension has 1 plane or more");
        if (cache.axes[a].count > 1 && cache.axes[a].stride == 0)
            refuse("cache.axes", a, cache.axes[a].stride, "the planes of a dimension do not overlap");
    }
    if (kept.stride < 0) refuse("kept.stride", kept.stride, "a request has 0 places for its nodes or more");
    if (kept.stride == 0 && kept.offsets == nullptr && kept.requests > 1)
        refuse("kept.stride", kept.stride,
               "all requests would keep the nodes of the first: give kept.offsets, the trees'");
    refuse_null(kept.nodes, "kept.nodes");
    refuse_null(kept.counts, "kept.counts");
    refuse_null(kept.bases, "kept.bases");
}

}  // namespace detail

/// Moves the kept nodes' entries together behind the root's, in place: for every request, plane and kept node k, entry
/// `bases[b] + nodes[k]` to entry `bases[b] + first + k`. Takes the output of `verify_batch` as it is.
///
/// `cache`: `contiguous_cache` or `paged_cache`, one allocation or a list of them, such as the keys and the values of
/// every layer, which are then moved in one call. No two planes, requests or caches of a list may share an entry that
/// moves. Entries are moved in pieces of 16 bytes where addresses and strides allow it, else of 8, 4, 2 or 1. A thread
/// moves one piece of every entry; entries that stay in place are not touched.
///
/// Throws `invalid_input`, before anything is moved, for missing arrays and invalid sizes, or on a CUDA stream returns
/// `cudaErrorInvalidValue` for them; the contents of the arrays are not checked.
template <execution_policy P, class Cache>
auto compact_caches(P const& policy, Cache const& cache, kept_batch const& kept) {
    return detail::checked(
        policy,
        [&] {
            if (kept.requests < 0) refuse("kept.requests", kept.requests, "a batch has 0 requests or more");
            if (kept.requests > 0) detail::refuse_bad_cache(cache, kept);
        },
        [&] { return detail::compact_by_pieces(policy, cache, kept); });
}

}  // namespace MULTIDRAFT_NAMESPACE
