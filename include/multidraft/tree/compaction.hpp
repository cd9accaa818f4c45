// Cache compaction: after verification a cache keeps its context and the entries of the accepted path, in place.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/span.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// Throws `invalid_input` unless `entries` increases strictly within [0, count): the entries to keep of the `count`
/// that follow the context. O(entries).
inline void validate_entries(span<std::int32_t const> entries, std::int64_t count) {
    for (std::size_t k = 0; k < entries.size(); ++k) {
        auto const index = static_cast<std::int64_t>(k);
        if (entries[k] < 0 || entries[k] >= count)
            refuse("entries", index, entries[k],
                   "an entry is in [0, " + std::to_string(count) + "), those after the context");
        if (k > 0 && entries[k] <= entries[k - 1])
            refuse("entries", index, entries[k],
                   "the entry before is " + std::to_string(entries[k - 1]) + ": entries increase strictly");
    }
}

/// Calls `move(to, from)` for each cache entry that must move, so that the cache becomes its first `context` entries
/// followed by `context + entries[k]`, in order (RSD `FilterKVCache`). Returns the new length.
///
/// Each entry moves at most once and always down. Move k may write where an earlier move read, so moves are carried out
/// in the order of the calls (one CUDA stream does). No entry that a later move reads is ever overwritten. `entries`
/// increases strictly (see `validate_entries`); not checked here.
template <class Move>
std::int64_t compact_entries(std::int64_t context, span<std::int32_t const> entries, Move&& move) {
    for (std::size_t k = 0; k < entries.size(); ++k) {
        auto const to = static_cast<std::int64_t>(k);
        if (entries[k] != to) move(context + to, context + entries[k]);
    }
    return context + static_cast<std::int64_t>(entries.size());
}

/// Compacts a cache whose entries are rows of `entry_size` elements, one after the other. Returns the new length.
///
/// `storage` holds the context's entries and those after it; what lies past the new length is unspecified. Throws
/// `invalid_input`, with nothing moved, for storage that is not a whole number of rows, a context longer than it, and
/// entries that do not increase strictly within it. O(entries entry_size).
template <class T>
std::int64_t compact(std::span<T> storage, std::int64_t entry_size, std::int64_t context,
                     span<std::int32_t const> entries) {
    if (entry_size < 1) refuse("entry_size", entry_size, "an entry has at least one element");
    auto const size = static_cast<std::int64_t>(storage.size());
    if (size % entry_size != 0)
        refuse("storage.size", size, "the storage is whole entries of " + std::to_string(entry_size));
    if (context < 0 || context > size / entry_size)
        refuse("context", context, "the storage has " + std::to_string(size / entry_size) + " entries");
    validate_entries(entries, size / entry_size - context);
    return compact_entries(context, entries, [&](std::int64_t to, std::int64_t from) {
        std::move(storage.data() + from * entry_size, storage.data() + (from + 1) * entry_size,
                  storage.data() + to * entry_size);
    });
}

/// One dimension of a cache around its entries: layers, keys and values, heads, sequences of a batch.
struct cache_axis {
    std::int64_t count = 1;
    std::int64_t stride = 0;  ///< elements from one to the next
};

/// Where the entries of a cache lie. Element e of entry t of plane (i, j, ..) is at i * axes[0].stride +
/// j * axes[1].stride + .. + t * entry_stride + e.
struct cache_layout {
    std::span<cache_axis const> axes;  ///< any number of dimensions; none for a single plane
    std::int64_t entries = 0;          ///< in use, the context's included
    std::int64_t entry_stride = 0;     ///< elements from one entry to the next, at least `entry_size`
    std::int64_t entry_size = 0;       ///< elements of an entry that lie together
};

namespace detail {

/// Refuses planes that share elements: such an entry would be moved twice.
///
/// The dimensions of an array nest: in order of stride, a step of one is longer than the extent of all shorter ones
/// together. Throws for those that do not, and for offsets beyond 64 bits.
inline void validate_planes(cache_layout const& layout) {
    constexpr auto most = std::numeric_limits<std::int64_t>::max();
    struct step {
        std::int64_t length;
        std::int64_t count;
        std::int64_t axis;  ///< -1: the entries themselves
    };
    std::vector<step> steps{{layout.entry_stride, std::max<std::int64_t>(layout.entries, 1), -1}};
    for (std::size_t a = 0; a < layout.axes.size(); ++a) {
        cache_axis const axis = layout.axes[a];
        auto const index = static_cast<std::int64_t>(a);
        if (axis.stride == std::numeric_limits<std::int64_t>::min())
            refuse("layout.axes", index, axis.stride, "the planes of this dimension lie further apart than 64 bits");
        if (axis.count > 1) steps.push_back({axis.stride < 0 ? -axis.stride : axis.stride, axis.count, index});
    }
    std::sort(steps.begin(), steps.end(),
              [](step const& a, step const& b) { return std::tie(a.length, a.axis) < std::tie(b.length, b.axis); });
    std::int64_t reached = layout.entry_size;  // elements from the first to one past the last
    for (step const& s : steps) {
        bool const of_entries = s.axis < 0;
        if (s.count > 1 && s.length < reached)
            refuse(of_entries ? "layout.entry_stride" : "layout.axes", s.axis, s.length,
                   of_entries ? "entries of different planes would overlap"
                              : "the planes of this dimension would overlap with others");
        if (s.length > 0 && s.count - 1 > (most - reached) / s.length)
            refuse(of_entries ? "layout.entries" : "layout.axes", s.axis, s.count, "the offsets exceed 64 bits");
        reached += (s.count - 1) * s.length;
    }
}

}  // namespace detail

/// Compacts a cache of several planes by calling `move(to, from, count)`, offsets and count in elements, for every
/// plane and entry that moves. Returns the new length.
///
/// `move` is the caller's: a copy on the host, or an asynchronous one on a device. The two ranges of a call never
/// overlap; calls are carried out in order within a plane (see `compact_entries`). Throws `invalid_input`, before the
/// first call, for sizes below 1, entries and planes that would overlap, and `entries` as `validate_entries` does.
/// Strides may be negative.
template <class Move>
std::int64_t compact(cache_layout const& layout, std::int64_t context, span<std::int32_t const> entries, Move&& move) {
    if (layout.entry_size < 1) refuse("layout.entry_size", layout.entry_size, "an entry has at least one element");
    if (layout.entry_stride < layout.entry_size)
        refuse("layout.entry_stride", layout.entry_stride, "entries would overlap");
    if (context < 0 || context > layout.entries)
        refuse("context", context, "the cache has " + std::to_string(layout.entries) + " entries");
    std::int64_t planes = 1;
    for (std::size_t a = 0; a < layout.axes.size(); ++a) {
        std::int64_t const count = layout.axes[a].count;
        if (count < 1) refuse("layout.axes", static_cast<std::int64_t>(a), count, "a dimension has at least one plane");
        if (planes > std::numeric_limits<std::int64_t>::max() / count)
            refuse("layout.axes", static_cast<std::int64_t>(a), count, "the number of planes exceeds 64 bits");
        planes *= count;
    }
    detail::validate_planes(layout);
    validate_entries(entries, layout.entries - context);
    for (std::int64_t plane = 0; plane < planes; ++plane) {
        std::int64_t offset = 0;
        std::int64_t rest = plane;
        for (std::size_t a = layout.axes.size(); a-- > 0;) {
            offset += rest % layout.axes[a].count * layout.axes[a].stride;
            rest /= layout.axes[a].count;
        }
        compact_entries(context, entries, [&](std::int64_t to, std::int64_t from) {
            move(offset + to * layout.entry_stride, offset + from * layout.entry_stride, layout.entry_size);
        });
    }
    return context + static_cast<std::int64_t>(entries.size());
}

}  // namespace MULTIDRAFT_NAMESPACE
