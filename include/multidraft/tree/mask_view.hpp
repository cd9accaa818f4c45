// A view of the bit-packed ancestor mask, which models read; `tree/mask.hpp` writes it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "multidraft/base/config.hpp"

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

    /// Whether it is the mask of a chain, which has no words.
    [[nodiscard]] MULTIDRAFT_HD constexpr bool causal() const noexcept { return words == nullptr; }

    /// Whether row i attends to column j. O(1).
    [[nodiscard]] MULTIDRAFT_HD constexpr bool operator()(node_id i, node_id j) const noexcept {
        if (words == nullptr) return j <= i;
        return ((words[i * row_words + j / 64] >> (j % 64)) & 1U) != 0;
    }

    /// The same mask without its first n rows: what a model needs to forward the nodes from n on.
    [[nodiscard]] MULTIDRAFT_HD constexpr mask_view from_row(node_id n) const noexcept {
        return {words == nullptr ? nullptr : words + n * row_words, row_words, rows < n ? rows : rows - n};
    }
};

}  // namespace MULTIDRAFT_NAMESPACE
