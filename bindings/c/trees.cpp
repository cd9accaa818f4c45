// Shapes, masks, positions and caches.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "errors.hpp"
#include "multidraft.h"
#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/float16.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/tree/compaction.hpp"
#include "multidraft/tree/links.hpp"
#include "multidraft/tree/mask.hpp"
#include "multidraft/tree/shape_text.hpp"
#include "multidraft/tree/topology.hpp"

namespace MULTIDRAFT_NAMESPACE::c_interface {
namespace {

span<node_id const> parents_of(std::int32_t const* parents, std::int64_t nodes) {
    span<node_id const> const result = array(parents, nodes, "parents");
    if (nodes > max_nodes) refuse("parents.size", nodes, "a tree has at most 2^24 nodes");
    return result;
}

/// The output of a dense mask: one row per node, with columns for the context and the nodes.
template <class T>
dense_mask<T> dense(T* out, std::int64_t nodes, std::int64_t context, std::int64_t row_stride) {
    if (context < 0 || context > std::numeric_limits<std::int32_t>::max())
        refuse("context", context, "a context has 0 to 2^31 - 1 tokens");
    if (row_stride < context + nodes) refuse("row_stride", row_stride, "rows would overlap");
    if (nodes > 0) refuse_null(out, "out");
    return {out, nodes, context + nodes, row_stride};
}

/// Offsets in elements, which are checked for 64 bits, then seldom exceed them in bytes.
constexpr std::int64_t largest_element = std::int64_t{1} << 20;

template <class T>
void write_bias_of(span<node_id const> parents, std::int64_t context, void* out, std::int64_t row_stride) {
    auto const to = dense(static_cast<T*>(out), static_cast<std::int64_t>(parents.size()), context, row_stride);
    write_bias(ancestor_mask(parents).view(), context, to);
}

}  // namespace
}  // namespace MULTIDRAFT_NAMESPACE::c_interface

using namespace multidraft;
using namespace multidraft::c_interface;

md_status md_parse_shape(char const* text, std::int32_t* parents, std::int64_t capacity, std::int64_t* nodes) {
    return guarded([&] {
        refuse_null(text, "text");
        refuse_null(nodes, "nodes");
        // A list of parents or of choices is refused as such: it is part of the text.
        topology const shape = with_names({{"shape", "text"},
                                           {"parents", "text"},
                                           {"choices", "text"},
                                           {"factors", "text"},
                                           {"width", "text"},
                                           {"length", "text"}},
                                          [&] { return parse_shape(text); });
        *nodes = shape.size();
        if (parents == nullptr) return;
        if (capacity < shape.size()) refuse("capacity", capacity, "this tree has " + std::to_string(shape.size()));
        std::copy(shape.parents().begin(), shape.parents().end(), parents);
    });
}

md_status md_tree_depths(std::int32_t const* parents, std::int64_t nodes, std::int32_t* depths) {
    return guarded([&] {
        topology const shape = topology::from_parents(parents_of(parents, nodes));
        if (depths != nullptr) std::copy(shape.depths().begin(), shape.depths().end(), depths);
    });
}

md_status md_level_order(std::int32_t const* parents, std::int64_t nodes, std::int32_t* order,
                         std::int32_t* level_parents) {
    return guarded([&] {
        span<node_id const> const given = parents_of(parents, nodes);
        std::vector<node_id> const found = level_order(given);
        std::vector<node_id> const of_order = parents_in_order(given, found);
        if (order != nullptr) std::copy(found.begin(), found.end(), order);
        if (level_parents != nullptr) std::copy(of_order.begin(), of_order.end(), level_parents);
    });
}

md_status md_write_mask(std::int32_t const* parents, std::int64_t nodes, std::uint64_t* words, std::int64_t row_words) {
    return guarded([&] {
        span<node_id const> const given = parents_of(parents, nodes);
        if (nodes > 0) refuse_null(words, "words");
        if (row_words < 0 || row_words > max_nodes) refuse("row_words", row_words, "a row has 2^24 words at most");
        write_mask(given, {words, static_cast<std::size_t>(nodes * row_words)}, row_words);
    });
}

md_status md_write_mask_bytes(std::int32_t const* parents, std::int64_t nodes, std::int64_t context, std::uint8_t* out,
                              std::int64_t row_stride) {
    return guarded([&] {
        span<node_id const> const given = parents_of(parents, nodes);
        auto const to = dense(out, nodes, context, row_stride);
        write_bytes(ancestor_mask(given).view(), context, to);
    });
}

md_status md_write_mask_bias(std::int32_t const* parents, std::int64_t nodes, std::int64_t context, std::int32_t dtype,
                             void* out, std::int64_t row_stride) {
    return guarded([&] {
        span<node_id const> const given = parents_of(parents, nodes);
        if (dtype == MD_FLOAT32)
            write_bias_of<float>(given, context, out, row_stride);
        else if (dtype == MD_FLOAT16)
            write_bias_of<float16>(given, context, out, row_stride);
        else if (dtype == MD_BFLOAT16)
            write_bias_of<bfloat16>(given, context, out, row_stride);
        else
            refuse("dtype", dtype, "it is MD_FLOAT32, MD_FLOAT16 or MD_BFLOAT16");
    });
}

md_status md_write_positions(std::int32_t const* parents, std::int64_t nodes, std::int32_t context,
                             std::int32_t* positions) {
    return guarded([&] {
        topology const shape = topology::from_parents(parents_of(parents, nodes));
        auto const out = array(positions, nodes, "positions");
        if (context > std::numeric_limits<std::int32_t>::max() - shape.max_depth())
            refuse("context", context, "the positions of the tree's nodes exceed 2^31 - 1");
        with_names({{"context_length", "context"}}, [&] { write_positions(context, shape.depths(), out); });
    });
}

md_status md_compact(md_cache const* cache, std::int64_t context, std::int32_t const* kept, std::int64_t kept_count,
                     std::int64_t* entries) {
    return guarded([&] {
        md_cache const c = read(cache, "cache");
        if (c.element_size < 1 || c.element_size > largest_element)
            refuse("cache.element_size", c.element_size, "an element has 1 to 2^20 bytes");
        if (c.entries > 0) refuse_null(c.data, "cache.data");
        if (kept_count > c.entries)
            refuse("kept.size", kept_count, "the cache has " + std::to_string(c.entries) + " entries");
        std::vector<cache_axis> axes;
        for (md_axis const& axis : array(c.axes, c.axis_count, "cache.axes")) axes.push_back({axis.count, axis.stride});
        auto* const bytes = static_cast<unsigned char*>(c.data);
        cache_layout const layout{axes, c.entries, c.entry_stride, c.entry_size};
        auto const move = [&](std::int64_t to, std::int64_t from, std::int64_t count) {
            std::memcpy(bytes + to * c.element_size, bytes + from * c.element_size,
                        static_cast<std::size_t>(count * c.element_size));
        };
        auto const of_kept = array(kept, kept_count, "kept");
        std::int64_t const left = with_names({{"entries", "kept"}, {"layout", "cache"}},
                                             [&] { return compact(layout, context, of_kept, move); });
        if (entries != nullptr) *entries = left;
    });
}
