// Values in place of a child's token: why there is no child.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/tree/topology.hpp"

namespace MULTIDRAFT_NAMESPACE {

// The trees of a batch have slots for the children that were wanted. The last slots of a node may hold no child: none
// could be drawn, or the slot is padding. It matters why: leaving out a child that *was* drawn, because of its token or
// of the draft's confidence in it, changes the law of the candidates, and the text is no longer the target's. So a
// plain `none` (-1) below a node of the tree is refused, except by verifiers to which the draws do not matter
// (`verify::naive`, lossy ones). Below an absent child any value will do.

/// No child: the draft's support had ended, and no token was left to draw. `draft_batch` writes it.
inline constexpr token_id support_ended = -2;

/// No child: the slot belongs to no node of the tree's shape, which was fixed before the draws.
inline constexpr token_id padding = -3;

/// Whether there is no child in a slot.
[[nodiscard]] MULTIDRAFT_HD constexpr bool is_absent(token_id token) noexcept { return token < 0; }

/// Whether there is no child in a slot for a reason that keeps the law of the others.
[[nodiscard]] MULTIDRAFT_HD constexpr bool is_absent_for_a_reason(token_id token) noexcept {
    return token == support_ended || token == padding;
}

/// Whether every slot of a tree holds a token, or none for a reason that keeps the law of the others, or is below such
/// a slot. The tree is in level order (`tree_view::is_tree`). O(nodes), and O(depth) for each slot with another value.
[[nodiscard]] MULTIDRAFT_HD constexpr bool is_complete(tree_view tree) noexcept {
    for (node_id v = 1; v < tree.size(); ++v) {
        if (!is_absent(tree.tokens[v]) || is_absent_for_a_reason(tree.tokens[v])) continue;
        node_id up = tree.parent(v);
        while (up > 0 && !is_absent(tree.tokens[up])) up = tree.parent(up);
        if (up <= 0) return false;  // left out below a node of the tree
    }
    return true;
}

/// An id as a token; `none` for one that is outside the range of tokens (and of tree/absent_tokens.hpp).
template <std::integral Id>
[[nodiscard]] MULTIDRAFT_HD constexpr token_id narrow_token(Id id) noexcept {
    return id >= Id{padding} && id <= Id{largest_number<token_id>} ? static_cast<token_id>(id) : none;
}

}  // namespace MULTIDRAFT_NAMESPACE
