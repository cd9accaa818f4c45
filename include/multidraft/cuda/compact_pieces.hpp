// What one thread moves when the caches of a batch are compacted.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "multidraft/core/config.hpp"

namespace MULTIDRAFT_NAMESPACE::cuda {

/// The entries that stay of each request's tree: of request b, `counts[b]` nodes at `nodes + b * stride`, increasing.
/// What `verify` writes, as it is.
struct kept_batch {
    std::int32_t requests = 0;
    node_id const* nodes = nullptr;
    std::int64_t stride = 0;
    std::int32_t const* counts = nullptr;
    std::int64_t const* bases = nullptr;  ///< the cache entry of node 0 of each request
    std::int32_t first = 1;  ///< the k-th kept node goes to entry `bases[b] + first + k`; 1: the root stays
};

/// A dimension of a cache around its entries, in bytes: layers, keys and values, heads.
struct byte_axis {
    std::int64_t count = 1;
    std::int64_t stride = 0;
};

/// A cache whose entries lie `entry_stride` bytes apart, `entry_bytes` of each together. Entry t of plane (i, j, k) of
/// request b is at `data + b * request_stride + i * axes[0].stride + .. + t * entry_stride`.
struct contiguous_cache {
    static constexpr int dimensions = 4;

    void* data = nullptr;
    std::int64_t request_stride = 0;
    std::int64_t entry_stride = 0;
    std::int64_t entry_bytes = 0;
    byte_axis axes[dimensions];

    /// The byte at which entry t of request b begins.
    [[nodiscard]] MULTIDRAFT_HD std::int64_t offset(std::int32_t b, std::int64_t t) const noexcept {
        return b * request_stride + t * entry_stride;
    }
};

/// A cache in pages: entry t of request b is entry `t % page_entries` of page `table[b * table_stride + t /
/// page_entries]`.
struct paged_cache {
    static constexpr int dimensions = 4;

    void* data = nullptr;
    std::int32_t const* table = nullptr;
    std::int64_t table_stride = 0;
    std::int64_t page_entries = 0;
    std::int64_t page_stride = 0;
    std::int64_t entry_stride = 0;
    std::int64_t entry_bytes = 0;
    byte_axis axes[dimensions];

    /// The byte at which entry t of request b begins, by its page.
    [[nodiscard]] MULTIDRAFT_HD std::int64_t offset(std::int32_t b, std::int64_t t) const noexcept {
        return table[b * table_stride + t / page_entries] * page_stride + t % page_entries * entry_stride;
    }
};

namespace detail {

/// The same piece of `sizeof(Piece)` bytes of every entry that moves, in one plane of one request.
///
/// No entry that a later move reads is overwritten by an earlier one (see `compact_entries`), so several are read
/// before they are written.
template <class Piece, class Cache>
struct compact_piece {
    Cache cache;
    kept_batch kept;
    std::int64_t pieces;  ///< of an entry
    std::int64_t planes;

    MULTIDRAFT_HD void operator()(std::int64_t k) const noexcept {
        std::int64_t at = k % pieces * static_cast<std::int64_t>(sizeof(Piece));
        std::int64_t plane = k / pieces % planes;
        auto const b = static_cast<std::int32_t>(k / pieces / planes);
        for (int a = Cache::dimensions; a-- > 0;) {
            at += plane % cache.axes[a].count * cache.axes[a].stride;
            plane /= cache.axes[a].count;
        }
        char* const data = static_cast<char*>(cache.data) + at;
        node_id const* const nodes = kept.nodes + b * kept.stride;
        std::int32_t const count = kept.counts[b];
        std::int64_t const base = kept.bases[b];
        constexpr std::int32_t together = 4;
        for (std::int32_t begin = 0; begin < count; begin += together) {
            Piece held[together] = {};
            for (std::int32_t j = 0; j < together; ++j)
                if (begin + j < count && nodes[begin + j] != kept.first + begin + j)
                    held[j] = *reinterpret_cast<Piece const*>(data + cache.offset(b, base + nodes[begin + j]));
            for (std::int32_t j = 0; j < together; ++j)
                if (begin + j < count && nodes[begin + j] != kept.first + begin + j)
                    *reinterpret_cast<Piece*>(data + cache.offset(b, base + kept.first + begin + j)) = held[j];
        }
    }
};

struct alignas(16) bytes_16 {
    std::uint32_t word[4];
};

}  // namespace detail

}  // namespace MULTIDRAFT_NAMESPACE::cuda
