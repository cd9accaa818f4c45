// The masks of the trees of a batch, packed, ragged or dense, and the positions of their nodes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/batch/arguments.hpp"
#include "multidraft/batch/detail/refusals.hpp"
#include "multidraft/batch/execution_policy.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/tree/topology.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// Masks over the context and the tree, one request after another, for SGLang's tree attention (`FULL_MASK`) and
/// FlashInfer's `custom_mask`.
///
/// Request b has one row per node and `contexts[b] + nodes` columns: first the cache entries before the root, to which
/// every node attends, then the nodes of the tree. Its rows follow one another from entry `starts[b]` (see
/// `write_mask_starts`).
template <class T>
struct ragged_masks {
    T* data = nullptr;
    std::int64_t size = 0;                   ///< entries to write: `starts[requests]` or fewer
    std::int64_t const* starts = nullptr;    ///< requests + 1 entries, nondecreasing
    std::int32_t const* contexts = nullptr;  ///< one per request; may be null: 0
};

namespace detail {

/// The types of words for the bits of a mask.
template <class Word>
concept word_of_bits = std::unsigned_integral<Word> && sizeof(Word) <= 8 && !std::same_as<Word, bool>;

/// Writes one word of the packed masks.
template <class Word>
struct write_packed_word {
    static constexpr node_id bits = static_cast<node_id>(8 * sizeof(Word));

    tree_batch trees;
    Word* words;
    std::int64_t row_words;

    MULTIDRAFT_HD void operator()(std::int64_t k) const noexcept {
        std::int64_t const row = k / row_words;
        auto const mine = static_cast<node_id>(k % row_words);
        std::int32_t const b = trees.request_of(row);
        std::int64_t const first = trees.offsets[b];
        std::uint64_t here = 0;
        if (trees.offsets[b + 1] - first > row_words * bits) {  // a tree too wide for its rows
            words[k] = Word{0};
            return;
        }
        // Ancestors have smaller numbers, so the walk ends below the word, or at a parent that is not an earlier node.
        auto above = static_cast<node_id>(row - first + 1);
        for (node_id v = above - 1; v >= 0 && v < above && v / bits >= mine; v = trees.parents[first + v]) {
            if (v / bits == mine) here |= std::uint64_t{1} << (v % bits);
            above = v;
        }
        words[k] = static_cast<Word>(here);
    }
};

/// A position in the entries of ragged masks: a request, a row and a column.
class ragged_place {
public:
    /// Entry `at` of request b, counted from the request's first.
    MULTIDRAFT_HD ragged_place(tree_batch const& trees, std::int32_t const* contexts, std::int32_t b,
                               std::int64_t at) noexcept
        : parents_(trees.parents + trees.offsets[b]),
          context_(contexts == nullptr ? 0 : contexts[b]),
          columns_(context_ + trees.size(b)),
          row_(columns_ > 0 ? static_cast<node_id>(at / columns_) : 0),
          column_(columns_ > 0 ? at % columns_ : 0),
          nodes_(trees.size(b)) {}

    /// Whether the request has the entry: its last row is that of its last node.
    [[nodiscard]] MULTIDRAFT_HD bool is_there() const noexcept { return row_ < nodes_; }
    /// Whether the row's node attends to the column. O(depth), O(1) in the context.
    [[nodiscard]] MULTIDRAFT_HD bool attends() const noexcept {
        if (column_ < context_) return true;
        std::int64_t const to = column_ - context_;
        node_id above = row_ + 1;
        node_id v = row_;
        while (v > to && v < above) {
            above = v;
            v = parents_[v];
        }
        return v == to;
    }
    MULTIDRAFT_HD void next() noexcept {
        if (++column_ < columns_) return;
        column_ = 0;
        ++row_;
    }

private:
    node_id const* parents_;
    std::int64_t context_;
    std::int64_t columns_;
    node_id row_;
    std::int64_t column_;
    node_id nodes_;
};

/// Writes 16 bytes of ragged masks, fewer at their end.
template <class T>
struct write_ragged_run {
    static constexpr std::int64_t width = 16 / static_cast<std::int64_t>(sizeof(T));
    struct alignas(16) pack {
        T entry[16 / sizeof(T)];
    };

    tree_batch trees;
    ragged_masks<T> out;
    T attends;
    T hidden;

    MULTIDRAFT_HD void operator()(std::int64_t k) const noexcept {
        std::int64_t const begin = k * width;
        std::int64_t const end = begin + width < out.size ? begin + width : out.size;
        pack values{};
        std::int32_t b = request_at(out.starts, trees.requests, begin);
        ragged_place place(trees, out.contexts, b, begin - out.starts[b]);
        for (std::int64_t at = begin; at < end; ++at) {
            while (b + 1 < trees.requests && at >= out.starts[b + 1]) {
                ++b;
                place = ragged_place(trees, out.contexts, b, at - out.starts[b]);
            }
            values.entry[at - begin] = place.is_there() && place.attends() ? attends : hidden;
            place.next();
        }
        T* const at = out.data + begin;
        if (end - begin == width && reinterpret_cast<std::uintptr_t>(at) % sizeof(pack) == 0) {
            *reinterpret_cast<pack*>(at) = values;
            return;
        }
        for (std::int64_t j = 0; j < end - begin; ++j) at[j] = values.entry[j];
    }
};

/// Writes one byte of ragged bits. Each request begins with a new byte.
struct write_ragged_byte {
    tree_batch trees;
    ragged_masks<std::uint8_t> out;

    MULTIDRAFT_HD void operator()(std::int64_t k) const noexcept {
        std::int32_t const b = request_at(out.starts, trees.requests, k);
        ragged_place place(trees, out.contexts, b, (k - out.starts[b]) * 8);
        unsigned bits = 0;
        for (unsigned j = 0; j < 8 && place.is_there(); ++j) {
            if (place.attends()) bits |= 1U << j;
            place.next();
        }
        out.data[k] = static_cast<std::uint8_t>(bits);
    }
};

/// Writes the start of one request's entries: the number of all entries before it.
struct write_mask_start {
    tree_batch trees;
    std::int32_t const* contexts;
    std::int64_t unit_bits;
    std::int64_t* starts;

    MULTIDRAFT_HD void operator()(std::int64_t k) const noexcept {
        std::int64_t sum = 0;
        for (std::int32_t b = 0; b < k; ++b) {
            std::int64_t const nodes = trees.size(b);
            std::int64_t const entries = nodes * ((contexts == nullptr ? 0 : contexts[b]) + nodes);
            sum += (entries + unit_bits - 1) / unit_bits;
        }
        starts[k] = sum;
    }
};

template <class Count>
void refuse_bad_contexts(tree_batch const& trees, Count const* contexts, char const* name = "contexts") {
    for (std::int32_t b = 0; contexts != nullptr && b < trees.requests; ++b)
        if (contexts[b] < 0) refuse(name, b, contexts[b], "a context has 0 entries or more");
}

/// Refuses missing words of packed masks and, on a host, rows too short for a tree.
template <class P, class Word>
void refuse_bad_words(P const&, tree_batch const& trees, Word const* words, std::int64_t row_words) {
    refuse_bad_trees(trees, false);
    if (trees.requests == 0) return;
    refuse_null(words, "words");
    if (row_words < 1) refuse("row_words", row_words, "a row has 1 word or more");
    constexpr auto bits = static_cast<std::int64_t>(8 * sizeof(Word));
    for (std::int32_t b = 0; host_policy<P> && b < trees.requests; ++b)
        if (trees.size(b) > row_words * bits)
            refuse("row_words", row_words,
                   "request " + std::to_string(trees.first_request + b) + " has " + std::to_string(trees.size(b)) +
                       " nodes, and a word " + std::to_string(bits) + " bits");
}

template <class P, class T>
void refuse_bad_masks(P const&, tree_batch const& trees, ragged_masks<T> const& out) {
    refuse_bad_trees(trees, false);
    if (trees.requests == 0) return;
    refuse_null(out.data, "out.data");
    refuse_null(out.starts, "out.starts");
    if (out.size < 0) refuse("out.size", out.size, "there are 0 entries or more");
    if constexpr (!host_policy<P>) return;
    refuse_bad_contexts(trees, out.contexts, "out.contexts");
    for (std::int32_t b = 0; b <= trees.requests; ++b) {
        std::int64_t const start = out.starts[b];
        if (b == 0 ? start != 0 : start < out.starts[b - 1])
            refuse("out.starts", b, start, "the first request begins at 0, and starts never decrease");
    }
    if (out.size > out.starts[trees.requests])
        refuse("out.size", out.size, "the masks end at " + std::to_string(out.starts[trees.requests]));
}

}  // namespace detail

/// Writes the packed masks of all trees over their nodes, one word per thread. Row `trees.offsets[b] + v` of `words`,
/// with `row_words` words per row, is that of node v of request b. For words of w bits, bit j % w of word j / w is 1 if
/// the node attends to node j.
///
/// Words have 1, 2, 4 or 8 bytes. SGLang's `QLEN_ONLY_BITPACKING` has one word of 1, 2 or 4 bytes per node,
/// TensorRT-LLM's packed masks have words of 4, `mask_view` reads words of 8. On a host throws `invalid_input` for
/// missing arrays and rows too short for a tree; in a launch such a tree gets rows of zeros. O(depth) per word.
template <execution_policy P, detail::word_of_bits Word>
auto write_masks(P const& policy, tree_batch const& trees, Word* words, std::int64_t row_words) {
    return detail::checked(
        policy, [&] { detail::refuse_bad_words(policy, trees, words, row_words); },
        [&] {
            return for_each(policy, trees.nodes * row_words, detail::write_packed_word<Word>{trees, words, row_words});
        });
}

/// Writes the `starts` of ragged masks, requests + 1 entries, one per thread. With `unit_bits` 1 they count entries,
/// for `write_ragged_masks`; with 8 they count bytes, each request rounded up to whole bytes, for `write_ragged_bits`.
/// O(requests) per entry.
template <execution_policy P>
auto write_mask_starts(P const& policy, tree_batch const& trees, std::int32_t const* contexts, std::int64_t unit_bits,
                       std::int64_t* starts) {
    return detail::checked(
        policy,
        [&] {
            detail::refuse_bad_requests(trees);
            detail::refuse_null(starts, "starts");
            if (unit_bits != 1 && unit_bits != 8) refuse("unit_bits", unit_bits, "1: entries, or 8: bytes of bits");
            if (trees.requests > 0) detail::refuse_null(trees.offsets, "trees.offsets");
            if constexpr (host_policy<P>) detail::refuse_bad_contexts(trees, contexts);
        },
        [&] {
            return for_each(policy, trees.requests + std::int64_t{1},
                            detail::write_mask_start{trees, contexts, unit_bits, starts});
        });
}

/// Writes ragged masks, 16 bytes per thread: `attends` where a node attends to the column, else `hidden`.
/// SGLang's `FULL_MASK` is `write_ragged_masks(policy, trees, ragged_masks<bool>{..}, true, false)`.
///
/// On a host throws `invalid_input`, before anything is written, for missing arrays, contexts below 0 and decreasing
/// starts; in a launch nothing is checked. O(1) per entry of the context, O(depth) per entry of the tree.
template <execution_policy P, class T>
auto write_ragged_masks(P const& policy, tree_batch const& trees, ragged_masks<T> const& out, T attends, T hidden) {
    return detail::checked(
        policy, [&] { detail::refuse_bad_masks(policy, trees, out); },
        [&] {
            constexpr std::int64_t width = detail::write_ragged_run<T>::width;
            std::int64_t const runs = trees.requests > 0 ? (out.size + width - 1) / width : 0;
            return for_each(policy, runs, detail::write_ragged_run<T>{trees, out, attends, hidden});
        });
}

/// Writes ragged masks with one bit per entry, one byte per thread; `out.size` and `out.starts` count bytes. Entry e of
/// request b is bit e % 8 of byte `starts[b] + e / 8`; a request's last bits are 0. This is FlashInfer's packed
/// `custom_mask`. Throws like `write_ragged_masks`.
template <execution_policy P>
auto write_ragged_bits(P const& policy, tree_batch const& trees, ragged_masks<std::uint8_t> const& out) {
    return detail::checked(
        policy, [&] { detail::refuse_bad_masks(policy, trees, out); },
        [&] {
            return for_each(policy, trees.requests > 0 ? out.size : 0, detail::write_ragged_byte{trees, out});
        });
}

namespace detail {

/// Writes the position of one node.
template <class Id>
struct write_position {
    tree_batch trees;
    std::int32_t const* contexts;
    Id* out;

    MULTIDRAFT_HD void operator()(std::int64_t k) const noexcept {
        std::int32_t const b = trees.request_of(k);
        out[k] = static_cast<Id>(contexts[b] + trees(b).depth(static_cast<node_id>(k - trees.offsets[b])));
    }
};

}  // namespace detail

/// Writes the positions of all nodes, one per thread: `contexts[b]`, the number of tokens before the root, plus the
/// depth. `Id`: `std::int64_t` (SGLang) or `std::int32_t`. Nodes may be in any order with parents before children;
/// tokens are not read. Throws `invalid_input` for missing arrays, or returns an error for them. O(depth) per node.
template <execution_policy P, std::integral Id>
auto write_positions(P const& policy, tree_batch const& trees, std::int32_t const* contexts, Id* out) {
    return detail::checked(
        policy,
        [&] {
            detail::refuse_bad_trees(trees, false);
            if (trees.requests == 0) return;
            detail::refuse_null(contexts, "contexts");
            detail::refuse_null(out, "out");
        },
        [&] {
            return for_each(policy, trees.nodes, detail::write_position<Id>{trees, contexts, out});
        });
}

/// Dense masks of a batch, one row per node: that of node r of the batch begins at `data + r * row_stride`. Columns:
/// `contexts[b]` that every node of request b attends to, then one for each node of the tree, then hidden ones up to
/// `columns`.
template <class T>
struct dense_masks {
    T* data = nullptr;
    std::int64_t columns = 0;
    std::int64_t row_stride = 0;             ///< elements from one row to the next, at least `columns`
    std::int64_t const* contexts = nullptr;  ///< one per request; may be null: 0
};

namespace detail {

/// Writes 16 bytes of a row of dense masks, or fewer at its end.
template <class T>
struct write_dense_run {
    static constexpr std::int64_t width = 16 / static_cast<std::int64_t>(sizeof(T));
    struct alignas(16) pack {
        T entry[16 / sizeof(T)];
    };

    tree_batch trees;
    std::uint64_t const* words;
    std::int64_t row_words;
    dense_masks<T> out;
    std::int64_t runs;  ///< per row
    T attends;
    T hidden;

    MULTIDRAFT_HD void operator()(std::int64_t k) const noexcept {
        std::int64_t const row = k / runs;
        std::int64_t const begin = k % runs * width;
        std::int32_t const b = trees.request_of(row);
        std::int64_t const context = out.contexts == nullptr ? 0 : out.contexts[b];
        std::int64_t const nodes = trees.offsets[b + 1] - trees.offsets[b];
        pack values;
        for (std::int64_t j = 0; j < width; ++j) {
            std::int64_t const column = begin + j - context;
            bool const seen =
                column < 0 ||
                (column < nodes && ((words[row * row_words + column / 64] >> (column % 64)) & std::uint64_t{1}) != 0);
            values.entry[j] = seen ? attends : hidden;
        }
        T* const at = out.data + row * out.row_stride + begin;
        if (begin + width <= out.columns && reinterpret_cast<std::uintptr_t>(at) % sizeof(pack) == 0) {
            *reinterpret_cast<pack*>(at) = values;
            return;
        }
        for (std::int64_t j = 0; j < width && begin + j < out.columns; ++j) at[j] = values.entry[j];
    }
};

}  // namespace detail

/// Writes the dense masks of all trees from the packed ones (`write_masks`, words of 64 bits): `attends` where a node
/// attends to the column, else `hidden`. One thread writes 16 bytes, in one access where they are aligned.
///
/// On a host throws `invalid_input`, before anything is written, for missing arrays, rows that would overlap, contexts
/// below 0 and packed rows too short for a tree; in a launch the contents of arrays are not checked. O(rows columns).
template <execution_policy P, class T>
auto write_dense(P const& policy, tree_batch const& trees, std::uint64_t const* words, std::int64_t row_words,
                 dense_masks<T> const& out, T attends, T hidden) {
    return detail::checked(
        policy,
        [&] {
            detail::refuse_bad_words(policy, trees, words, row_words);
            if (trees.requests == 0) return;
            detail::refuse_null(out.data, "out.data");
            if (out.columns < 0) refuse("out.columns", out.columns, "a mask has 0 columns or more");
            if (out.row_stride < out.columns) refuse("out.row_stride", out.row_stride, "rows would overlap");
            if constexpr (host_policy<P>) detail::refuse_bad_contexts(trees, out.contexts);
        },
        [&] {
            constexpr std::int64_t width = detail::write_dense_run<T>::width;
            std::int64_t const runs = (out.columns + width - 1) / width;
            return for_each(policy, trees.nodes * runs,
                            detail::write_dense_run<T>{trees, words, row_words, out, runs, attends, hidden});
        });
}

/// Writes the dense masks as bytes: 1 where a node attends, else 0.
template <execution_policy P>
auto write_bytes(P const& policy, tree_batch const& trees, std::uint64_t const* words, std::int64_t row_words,
                 dense_masks<std::uint8_t> const& out) {
    return write_dense(policy, trees, words, row_words, out, std::uint8_t{1}, std::uint8_t{0});
}

/// Writes the dense masks as an additive bias: 0 where a node attends, else -inf. T: float, `float16`, `bfloat16`.
template <execution_policy P, class T>
auto write_bias(P const& policy, tree_batch const& trees, std::uint64_t const* words, std::int64_t row_words,
                dense_masks<T> const& out) {
    return write_dense(policy, trees, words, row_words, out, T(0.0F), T(minus_infinity<float>));
}

}  // namespace MULTIDRAFT_NAMESPACE
