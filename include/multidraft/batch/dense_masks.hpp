// Attention masks of the trees of a batch as dense rows of one width: bytes, or a bias to add to scores.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/batch/arguments.hpp"
#include "multidraft/batch/detail/refusals.hpp"
#include "multidraft/batch/execution_policy.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/batch/masks.hpp"

namespace MULTIDRAFT_NAMESPACE {

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
