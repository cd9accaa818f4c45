// Ancestor masks and positions: what the nodes of a tree may attend to, and their positions in the text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/base/span.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// Rows of bits, 64 to a word: bit j of row i is set if node i attends to node j.
///
/// Row i is `words[i * row_words .. i * row_words + row_words)`; bit j is bit `j % 64` of word `j / 64`. A node attends
/// to the whole context, to its ancestors and to itself; the mask covers the tree's nodes only. Bits at and beyond the
/// number of nodes are 0. A default-constructed view is *causal*: row i attends to every j <= i, as in a chain. Models
/// can use a faster path for it.
struct mask_view {
    std::uint64_t const* words = nullptr;
    std::int64_t row_words = 0;  ///< words from one row to the next
    std::int64_t rows = -1;      ///< how many there are; -1: unknown
    std::int64_t first = 0;      ///< of a causal view, the number of its first row

    /// Whether it is the mask of a chain, which has no words.
    [[nodiscard]] MULTIDRAFT_HD constexpr bool causal() const noexcept { return words == nullptr; }

    /// Whether row i attends to column j. O(1).
    [[nodiscard]] MULTIDRAFT_HD constexpr bool operator()(node_id i, node_id j) const noexcept {
        if (words == nullptr) return j <= i + first;
        return ((words[i * row_words + j / 64] >> (j % 64)) & 1U) != 0;
    }

    /// The same mask without its first n rows: what a model needs to forward the nodes from n on.
    [[nodiscard]] MULTIDRAFT_HD constexpr mask_view from_row(node_id n) const noexcept {
        std::int64_t const left = rows < 0 ? -1 : rows < n ? 0 : rows - n;
        if (words == nullptr) return {nullptr, row_words, left, first + n};
        return {words + n * row_words, row_words, left};
    }
};

/// Words that a packed row over n nodes needs: n / 64, rounded up.
[[nodiscard]] MULTIDRAFT_HD constexpr std::int64_t words_per_row(node_id n) noexcept {
    return (static_cast<std::int64_t>(n) + 63) / 64;
}

namespace detail {

/// Rows [begin, end) of a packed mask from the rows before them: the parent's row and the node's own bit ([RSD] Alg.
/// 5).
inline void extend_mask(node_id begin, node_id end, node_id const* parents_of_new, std::uint64_t* words,
                        std::int64_t row_words) noexcept {
    if (row_words == 1) {
        for (node_id i = begin; i < end; ++i) {
            node_id const up = parents_of_new[i - begin];
            words[i] = (up < 0 ? 0 : words[up]) | std::uint64_t{1} << i;
        }
        return;
    }
    for (node_id i = begin; i < end; ++i) {
        std::uint64_t* const row = words + i * row_words;
        node_id const up = parents_of_new[i - begin];
        // A parent's row has no bits beyond the parent's word.
        std::int64_t const used = up < 0 ? 0 : up / 64 + 1;
        if (used > 0) std::copy_n(words + up * row_words, used, row);
        std::fill(row + used, row + row_words, std::uint64_t{0});
        row[i / 64] |= std::uint64_t{1} << (i % 64);
    }
}

/// Refuses the parents of nodes `first ..` unless each is an earlier node, and that of node 0 is -1.
inline void validate_parents_before(span<node_id const> parents, node_id first) {
    for (std::size_t k = 0; k < parents.size(); ++k) {
        auto const index = static_cast<std::int64_t>(k);
        std::int64_t const node = first + index;
        if (node == 0 && parents[k] != none)
            refuse("parents", index, parents[k], "node 0 is the root and has parent -1");
        if (node > 0 && parents[k] < 0) refuse("parents", index, parents[k], "every node but node 0 has a parent");
        if (parents[k] >= node) refuse("parents", index, parents[k], "a parent must come before its child");
    }
}

}  // namespace detail

/// Writes the packed mask of a whole tree: N rows, `row_words` words apart, into the caller's memory.
///
/// Row i is its parent's row and bit i; O(N row_words). Throws `invalid_input`, with nothing written, when a parent
/// does not come before its child, when a row is too short for N bits or `words` too short for N rows.
inline mask_view write_mask(span<node_id const> parents, span<std::uint64_t> words, std::int64_t row_words) {
    if (parents.size() > static_cast<std::size_t>(largest_number<node_id>))
        refuse("parents.size", parents.size(), "a tree has fewer than 2^31 nodes");
    auto const n = static_cast<node_id>(parents.size());
    if (row_words < words_per_row(n))
        refuse("row_words", row_words, std::to_string(n) + " nodes need " + std::to_string(words_per_row(n)));
    // By a quotient, since the product may exceed 64 bits.
    if (n > 0 && words.size() / static_cast<std::size_t>(n) < static_cast<std::size_t>(row_words))
        refuse("words.size", words.size(),
               std::to_string(n) + " rows of " + std::to_string(row_words) + " words are needed");
    detail::validate_parents_before(parents, 0);
    detail::extend_mask(0, n, parents.data(), words.data(), row_words);
    return {words.data(), row_words, n};
}

/// A packed mask that owns its words and grows with its tree, level by level.
class ancestor_mask {
public:
    ancestor_mask() = default;

    /// The mask of a whole tree. Throws `invalid_input` as `append` does.
    explicit ancestor_mask(span<node_id const> parents) {
        reset(static_cast<node_id>(parents.size()));
        append(parents);
    }

    /// Clears the mask and reserves memory for `capacity` nodes: up to that number `append` neither allocates nor moves
    /// rows. Memory is kept.
    void reset(node_id capacity) {
        size_ = 0;
        row_words_ = words_per_row(std::max(capacity, 1));
        auto const wanted = static_cast<std::size_t>(std::max(capacity, 1) * row_words_);
        if (words_.size() < wanted) words_.resize(wanted);
    }

    /// Adds nodes `size() ..` with these parents, nodes that come before them ([RSD] Alg. 5). The first node ever added
    /// is the root, with parent -1. O(row words) a node.
    ///
    /// Throws `invalid_input`, with nothing changed, when a parent does not come before its child. Views from before
    /// stay valid unless the capacity was exceeded.
    void append(span<node_id const> parents) {
        detail::validate_parents_before(parents, size_);
        if (parents.size() > static_cast<std::size_t>(std::numeric_limits<node_id>::max() - size_))
            refuse("parents.size", parents.size(), "a tree has fewer than 2^31 nodes");
        node_id const end = size_ + static_cast<node_id>(parents.size());
        make_room(end);
        detail::extend_mask(size_, end, parents.data(), words_.data(), row_words_);
        size_ = end;
    }

    [[nodiscard]] node_id size() const noexcept { return size_; }

    /// The mask; its rows are those of nodes 0 .. size() - 1.
    [[nodiscard]] mask_view view() const noexcept { return {words_.data(), row_words_, size_}; }

private:
    void make_room(node_id nodes) {
        std::int64_t const wanted = words_per_row(nodes);
        if (wanted > row_words_) {  // rows get longer: move them apart
            std::int64_t const row = std::max(wanted, 2 * row_words_);
            std::vector<std::uint64_t> words(static_cast<std::size_t>(nodes * row));
            for (std::int64_t i = 0; i < size_; ++i)
                std::copy_n(words_.data() + i * row_words_, row_words_, words.data() + i * row);
            words_ = std::move(words);
            row_words_ = row;
        } else if (words_.size() < static_cast<std::size_t>(nodes * row_words_)) {
            words_.resize(static_cast<std::size_t>(nodes * row_words_));
        }
    }

    std::vector<std::uint64_t> words_;
    std::int64_t row_words_ = 1;
    node_id size_ = 0;
};

/// The mask of a tree that stopped early: the first `nodes` nodes of the tree of `full`, which has `full_nodes`.
///
/// A *sliced* mask ([ImprovingMCSD] 3.2): no node attends to a later one, so the mask of every prefix is the upper left
/// corner of the largest tree's, which is made once. O(1), nothing is copied. Throws `invalid_input` for an invalid
/// prefix.
[[nodiscard]] inline mask_view sliced(mask_view full, node_id full_nodes, node_id nodes) {
    if (nodes < 0 || nodes > full_nodes)
        refuse("nodes", nodes, "the tree of the mask has " + std::to_string(full_nodes) + " nodes");
    // The words have bits beyond the corner, but none of these is set in a row of the corner.
    return {full.words, full.row_words, nodes};
}

/// A dense mask in the caller's memory: entry (i, j) is `data[i * row_stride + j]`.
///
/// Columns are the last `context` entries of the cache before the tree, if wanted, and then the tree's nodes.
template <class T>
struct dense_mask {
    T* data = nullptr;
    std::int64_t rows = 0;
    std::int64_t columns = 0;
    std::int64_t row_stride = 0;  ///< elements from one row to the next, at least `columns`

    /// Entry (i, j).
    [[nodiscard]] MULTIDRAFT_HD constexpr T& operator()(std::int64_t i, std::int64_t j) const noexcept {
        return data[i * row_stride + j];
    }

    /// The upper left corner: the mask of a tree that stopped early ([ImprovingMCSD] 3.2). O(1).
    ///
    /// Throws `invalid_input` when it is larger than the mask.
    [[nodiscard]] constexpr dense_mask sliced(std::int64_t row_count, std::int64_t column_count) const {
        if (row_count < 0 || row_count > rows) refuse("row_count", row_count, "the mask has " + std::to_string(rows));
        if (column_count < 0 || column_count > columns)
            refuse("column_count", column_count, "the mask has " + std::to_string(columns));
        return {data, row_count, column_count, row_stride};
    }
};

/// Writes a mask densely: `attends` where row i attends to the column and `hidden` where it does not.
///
/// `out.columns` is `context` columns that every row attends to and then one for each node; `out.rows` rows of `mask`
/// are written, so `mask.from_row(n)` gives those of a later level. Nothing beyond `out.columns` of a row is touched.
/// O(rows columns), at the speed of filling memory. Throws `invalid_input` for a shape that does not fit, and for more
/// rows than `mask` is known to have (see `mask_view::rows`).
template <class T>
void write_dense(mask_view mask, std::int64_t context, dense_mask<T> out, T attends, T hidden) {
    if (context < 0 || context > out.columns)
        refuse("context", context, "the mask has " + std::to_string(out.columns) + " columns");
    if (out.row_stride < out.columns) refuse("out.row_stride", out.row_stride, "rows would overlap");
    std::int64_t const nodes = out.columns - context;
    if (!mask.causal() && nodes > 0 && (nodes - 1) / 64 >= mask.row_words)
        refuse("out.columns", out.columns, "a packed row has " + std::to_string(mask.row_words) + " words of 64 nodes");
    if (!mask.causal() && mask.rows >= 0 && out.rows > mask.rows)
        refuse("out.rows", out.rows, "the packed mask has " + std::to_string(mask.rows) + " rows");
    for (std::int64_t i = 0; i < out.rows; ++i) {
        T* const row = out.data + i * out.row_stride;
        if (mask.causal()) {
            std::int64_t const seen = std::min(context + mask.first + i + 1, out.columns);
            std::fill(row, row + seen, attends);
            std::fill(row + seen, row + out.columns, hidden);
            continue;
        }
        std::fill(row, row + context, attends);
        std::fill(row + context, row + out.columns, hidden);
        std::uint64_t const* const words = mask.words + i * mask.row_words;
        for (std::int64_t begin = 0; begin < nodes; begin += 64) {
            std::uint64_t bits = words[begin / 64];
            if (nodes - begin < 64) bits &= (std::uint64_t{1} << (nodes - begin)) - 1;
            // A node has few ancestors, so set bits one by one.
            for (; bits != 0; bits &= bits - 1) row[context + begin + std::countr_zero(bits)] = attends;
        }
    }
}

/// The dense mask as bytes: 1 attends, 0 does not.
inline void write_bytes(mask_view mask, std::int64_t context, dense_mask<std::uint8_t> out) {
    write_dense(mask, context, out, std::uint8_t{1}, std::uint8_t{0});
}

/// The dense mask as a bias to add to attention scores: 0 attends, -inf does not. T: float, `float16` or `bfloat16`.
template <class T>
void write_bias(mask_view mask, std::int64_t context, dense_mask<T> out) {
    write_dense(mask, context, out, T(0.0F), T(-std::numeric_limits<float>::infinity()));
}

/// The positions of nodes in the text: `context_length` + depth, the root's depth being 0.
///
/// `context_length` counts the tokens before the root; `depths` and `out` have one entry for each node. O(N). Throws
/// `invalid_input` for lengths that differ and for a position past 2^31 - 1.
inline void write_positions(std::int32_t context_length, span<std::int32_t const> depths, span<std::int32_t> out) {
    if (out.size() != depths.size())
        refuse("out.size", out.size(), "depths has " + std::to_string(depths.size()) + " entries");
    if (context_length < 0) refuse("context_length", context_length, "a length is not negative");
    for (std::size_t i = 0; i < depths.size(); ++i) {
        if (depths[i] < 0 || depths[i] > std::numeric_limits<std::int32_t>::max() - context_length)
            refuse("depths", static_cast<std::int64_t>(i), depths[i], "the position would not be one");
    }
    for (std::size_t i = 0; i < depths.size(); ++i) out[i] = context_length + depths[i];
}

}  // namespace MULTIDRAFT_NAMESPACE
