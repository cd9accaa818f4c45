// Compacting the caches of a batch in place, all layers in one call: their layouts, and the moves.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/batch/detail/refusals.hpp"
#include "multidraft/batch/execution_policy.hpp"
#include "multidraft/batch/host_threads.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// The entries to keep of each request's tree: for request b `counts[b]` nodes at `nodes + b * stride`, increasing, as
/// `verify_batch` writes them with that `path_stride`; with a stride of 0 they are at `nodes + offsets[b]`, as it
/// writes them with the `offsets` of the trees.
struct kept_batch {
    std::int32_t requests = 0;
    node_id const* nodes = nullptr;
    std::int64_t stride = 0;
    std::int32_t const* counts = nullptr;
    std::int64_t const* bases = nullptr;  ///< the cache entry of node 0 of each request
    std::int32_t first = 1;  ///< the k-th kept node goes to entry `bases[b] + first + k`; 1: the root stays
    std::int64_t const* offsets = nullptr;  ///< read where `stride` is 0, of more than one request
    /// Which place in the cache each request has, where caches stay as requests come and go; may be null: request b has
    /// place b.
    std::int32_t const* slot_of = nullptr;

    /// The kept nodes of request b.
    [[nodiscard]] MULTIDRAFT_HD node_id const* nodes_of(std::int32_t b) const noexcept {
        return nodes + (stride == 0 && offsets != nullptr ? offsets[b] : b * stride);
    }
    /// The place of request b in the cache.
    [[nodiscard]] MULTIDRAFT_HD std::int32_t slot(std::int32_t b) const noexcept {
        return slot_of == nullptr ? b : slot_of[b];
    }
};

/// A dimension of a cache around its entries, in bytes: layers, keys and values, heads.
struct byte_axis {
    std::int64_t count = 1;
    std::int64_t stride = 0;
};

/// A cache, or a list of caches, whose entries are `entry_stride` bytes apart, each of `entry_bytes` bytes. Entry t
/// of plane (i, j, k) of the request at place b (`kept_batch::slot`) is at `data + b * request_stride + i *
/// axes[0].stride + .. + t * entry_stride`.
struct contiguous_cache {
    static constexpr int dimensions = 4;

    void* data = nullptr;
    std::int64_t request_stride = 0;
    std::int64_t entry_stride = 0;
    std::int64_t entry_bytes = 0;
    byte_axis axes[dimensions] = {};
    /// For engines with a separate allocation for the keys and the values of each layer: the `listed` addresses of
    /// these allocations, instead of `data`. May be null: `data`. The list is in memory of the machine that the call
    /// runs on; its addresses are multiples of `list_alignment`.
    void* const* list = nullptr;
    std::int64_t listed = 1;
    std::int64_t list_alignment = 16;

    /// The byte at which entry t of the request at place b begins.
    [[nodiscard]] MULTIDRAFT_HD std::int64_t offset(std::int32_t b, std::int64_t t) const noexcept {
        return b * request_stride + t * entry_stride;
    }
};

/// Where the pages of each request are: entry t of the request at place b is entry `t % entries` of page `table[b *
/// table_stride + t / entries]`, and pages are `page_stride` bytes apart. A table with one slot for each token has
/// pages of one entry.
struct page_table {
    std::int32_t const* table = nullptr;
    std::int64_t table_stride = 0;
    std::int64_t entries = 0;
    std::int64_t page_stride = 0;
};

/// A cache, or a list of caches, in pages.
struct paged_cache {
    static constexpr int dimensions = 4;

    void* data = nullptr;
    page_table pages{};
    std::int64_t entry_stride = 0;
    std::int64_t entry_bytes = 0;
    byte_axis axes[dimensions] = {};
    /// For engines with a separate allocation for the keys and the values of each layer: the `listed` addresses of
    /// these allocations, instead of `data`. May be null: `data`. The list is in memory of the machine that the call
    /// runs on; its addresses are multiples of `list_alignment`.
    void* const* list = nullptr;
    std::int64_t listed = 1;
    std::int64_t list_alignment = 16;

    /// The byte at which entry t of the request at place b begins, by its page.
    [[nodiscard]] MULTIDRAFT_HD std::int64_t offset(std::int32_t b, std::int64_t t) const noexcept {
        return pages.table[b * pages.table_stride + t / pages.entries] * pages.page_stride +
               t % pages.entries * entry_stride;
    }
};

namespace detail {

/// The number of planes of a cache, over its whole list.
template <class Cache>
[[nodiscard]] constexpr std::int64_t planes_of(Cache const& cache) noexcept {
    std::int64_t planes = cache.list == nullptr ? 1 : cache.listed;
    for (auto const& axis : cache.axes) planes *= axis.count;
    return planes;
}

/// A power of two divides this number if and only if it divides the address and the size of every entry.
template <class Cache>
[[nodiscard]] std::uintptr_t alignment_of(Cache const& cache) noexcept {
    auto together = (cache.list == nullptr ? reinterpret_cast<std::uintptr_t>(cache.data)
                                           : static_cast<std::uintptr_t>(cache.list_alignment)) |
                    static_cast<std::uintptr_t>(cache.entry_stride) | static_cast<std::uintptr_t>(cache.entry_bytes);
    if constexpr (requires { cache.pages; })
        together |= static_cast<std::uintptr_t>(cache.pages.page_stride);
    else
        together |= static_cast<std::uintptr_t>(cache.request_stride);
    for (auto const& axis : cache.axes)
        if (axis.count > 1) together |= static_cast<std::uintptr_t>(axis.stride);
    return together;
}

/// Moves the same piece of `sizeof(Piece)` bytes of every entry that moves, in one plane of one request.
///
/// No entry that a later move reads is overwritten by an earlier one (see `compact_entries`), so several are read
/// before they are written.
template <class Piece, class Cache>
struct compact_piece {
    Cache cache;
    kept_batch kept;
    std::int64_t pieces;  ///< of an entry
    std::int64_t planes;  ///< over the whole list: `planes_of`

    MULTIDRAFT_HD void operator()(std::int64_t k) const noexcept {
        std::int64_t at = k % pieces * static_cast<std::int64_t>(sizeof(Piece));
        std::int64_t plane = k / pieces % planes;
        auto const b = static_cast<std::int32_t>(k / pieces / planes);
        for (int a = Cache::dimensions; a-- > 0;) {
            at += plane % cache.axes[a].count * cache.axes[a].stride;
            plane /= cache.axes[a].count;
        }
        // The quotient that remains is the index in the list.
        char* const data = static_cast<char*>(cache.list == nullptr ? cache.data : cache.list[plane]) + at;
        node_id const* const nodes = kept.nodes_of(b);
        std::int32_t const count = kept.counts[b];
        std::int64_t const base = kept.bases[b];
        std::int32_t const place = kept.slot(b);
        constexpr std::int32_t together = 4;
        for (std::int32_t begin = 0; begin < count; begin += together) {
            Piece held[together] = {};
            for (std::int32_t j = 0; j < together; ++j)
                if (begin + j < count && nodes[begin + j] != kept.first + begin + j)
                    copy(&held[j], data + cache.offset(place, base + nodes[begin + j]));
            for (std::int32_t j = 0; j < together; ++j)
                if (begin + j < count && nodes[begin + j] != kept.first + begin + j)
                    copy(data + cache.offset(place, base + kept.first + begin + j), &held[j]);
        }
    }

private:
    /// Copies one piece; on a device through its type, so that it is one access.
    static MULTIDRAFT_HD void copy(void* to, void const* from) noexcept {
#if MULTIDRAFT_ON_DEVICE
        *static_cast<Piece*>(to) = *static_cast<Piece const*>(from);
#else
        MULTIDRAFT_COPY_BYTES(to, from, sizeof(Piece));
#endif
    }
};

struct alignas(16) bytes_16 {
    std::uint32_t word[4];
};

/// Calls `with(piece)` with the largest type of piece that divides every entry of a cache.
template <class Cache, class With>
auto with_piece(Cache const& cache, With const& with) {
    std::uintptr_t const together = alignment_of(cache);
    if (together % 16 == 0) return with(bytes_16{});
    if (together % 8 == 0) return with(std::uint64_t{});
    if (together % 4 == 0) return with(std::uint32_t{});
    if (together % 2 == 0) return with(std::uint16_t{});
    return with(std::uint8_t{});
}

}  // namespace detail

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

/// Refuses strides by which planes, entries, pages or requests would share bytes: such an entry would be moved twice.
///
/// The dimensions of an array nest: in order of stride, a step of one is longer than the extent of all shorter ones
/// together. How many pages and requests the memory has is not known, so that of these one step alone is looked at.
template <class Cache>
void refuse_overlap(Cache const& cache, [[maybe_unused]] std::int32_t requests) {
    struct step {
        double length;  // exact up to 2^53 bytes, and never beyond its range
        double extent;  ///< from the first to the last
        char const* name;
        std::int64_t index;
        std::int64_t given;
    };
    step steps[Cache::dimensions + 2] = {};
    int count = 0;
    auto const add = [&](std::int64_t stride, std::int64_t times, bool known, char const* name, std::int64_t index) {
        if (times < 2) return;
        double const length = stride < 0 ? -static_cast<double>(stride) : static_cast<double>(stride);
        int at = count++;
        for (; at > 0 && steps[at - 1].length > length; --at) steps[at] = steps[at - 1];
        steps[at] = {length, known ? static_cast<double>(times - 1) * length : 0, name, index, stride};
    };
    if constexpr (requires { cache.pages; }) {
        add(cache.entry_stride, cache.pages.entries, true, "cache.entry_stride", none);
        add(cache.pages.page_stride, 2, false, "cache.pages.page_stride", none);
    } else {
        // An entry that moves is not the only one.
        add(cache.entry_stride, 2, true, "cache.entry_stride", none);
        // 0: `kept_batch::bases` counts from the first request's entries.
        if (cache.request_stride != 0) add(cache.request_stride, requests, false, "cache.request_stride", none);
    }
    for (int a = 0; a < Cache::dimensions; ++a) add(cache.axes[a].stride, cache.axes[a].count, true, "cache.axes", a);
    auto reached = static_cast<double>(cache.entry_bytes);
    for (int k = 0; k < count; ++k) {
        step const& s = steps[k];
        if (s.length < reached) {
            char const* const reason = "entries, planes, pages and requests do not share bytes";
            if (s.index == none) refuse(s.name, s.given, reason);
            refuse(s.name, s.index, s.given, reason);
        }
        reached += s.extent;
    }
}

/// Refuses invalid sizes of a cache, and missing arrays.
template <class Cache>
void refuse_bad_cache(Cache const& cache, kept_batch const& kept) {
    if (cache.list == nullptr) refuse_null(cache.data, "cache.data");
    if (cache.list != nullptr && cache.listed < 1) refuse("cache.listed", cache.listed, "a list has 1 address or more");
    if (cache.list != nullptr && cache.list_alignment < 1)
        refuse("cache.list_alignment", cache.list_alignment, "addresses are multiples of 1 or more");
    if (cache.entry_bytes < 1) refuse("cache.entry_bytes", cache.entry_bytes, "an entry has 1 byte or more");
    if (cache.entry_stride < cache.entry_bytes)
        refuse("cache.entry_stride", cache.entry_stride, "entries would overlap");
    if constexpr (requires { cache.pages; }) {
        if (cache.pages.entries < 1) refuse("cache.pages.entries", cache.pages.entries, "a page has 1 entry or more");
        refuse_null(cache.pages.table, "cache.pages.table");
    }
    for (int a = 0; a < Cache::dimensions; ++a)
        if (cache.axes[a].count < 1) refuse("cache.axes", a, cache.axes[a].count, "a dimension has 1 plane or more");
    refuse_overlap(cache, kept.requests);
    if (kept.stride < 0) refuse("kept.stride", kept.stride, "a request has 0 places for its nodes or more");
    if (kept.stride == 0 && kept.offsets == nullptr && kept.requests > 1)
        refuse("kept.stride", kept.stride,
               "all requests would keep the nodes of the first: give kept.offsets, the trees'");
    refuse_null(kept.nodes, "kept.nodes");
    refuse_null(kept.counts, "kept.counts");
    refuse_null(kept.bases, "kept.bases");
}

/// Refuses contents of the arrays, which are in host memory, by which a cache would lose entries. O(kept nodes).
inline void refuse_bad_kept(kept_batch const& kept) {
    for (std::int32_t b = 0; b < kept.requests; ++b) {
        std::int32_t const count = kept.counts[b];
        if (count < 0 || (kept.stride > 0 && count > kept.stride))
            refuse("kept.counts", b, count, "a request keeps 0 nodes or more, no more than kept.stride");
        if (count == 0) continue;  // a draft that has not read a root has no base for it
        if (kept.bases[b] < 0) refuse("kept.bases", b, kept.bases[b], "an entry of a cache is not negative");
        if (kept.slot(b) < 0) refuse("kept.slot_of", b, kept.slot(b), "a place in a cache is not negative");
        node_id const* const nodes = kept.nodes_of(b);
        for (std::int32_t k = 0; k < count; ++k)
            if (nodes[k] < kept.first || (k > 0 && nodes[k] <= nodes[k - 1]))
                refuse("kept.nodes", nodes + k - kept.nodes, nodes[k],
                       "the kept nodes of a request rise, from kept.first on: request " + std::to_string(b));
    }
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
/// Throws `invalid_input`, before anything is moved, for missing arrays, sizes below 1 and strides by which entries,
/// planes, pages or requests would share bytes, or on a CUDA stream returns `cudaErrorInvalidValue` for them. On the
/// host also for nodes that do not rise or are more than there is room for, negative counts, bases and places; the
/// contents of arrays on a device are not checked.
template <execution_policy P, class Cache>
auto compact_caches(P const& policy, Cache const& cache, kept_batch const& kept) {
    return detail::checked(
        policy,
        [&] {
            if (kept.requests < 0) refuse("kept.requests", kept.requests, "a batch has 0 requests or more");
            if (kept.requests == 0) return;
            detail::refuse_bad_cache(cache, kept);
            if constexpr (host_policy<P>) detail::refuse_bad_kept(kept);
        },
        [&] { return detail::compact_by_pieces(policy, cache, kept); });
}

}  // namespace MULTIDRAFT_NAMESPACE
