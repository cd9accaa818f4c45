// What a verifier decides about and what it decides: the children of a node, and its verdict.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/tree/absent_tokens.hpp"
#include "multidraft/tree/topology.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// The outcome of verifying one draft tree: the accepted path, whose nodes the verifier wrote to the caller's span, and
/// the token that follows it. `accepted + 1` tokens are emitted.
struct verdict {
    std::int32_t accepted = 0;  ///< accepted nodes, the root not counted
    token_id next = none;       ///< the token after the last accepted node, drawn from the target's (residual) row
};

namespace verify {

/// The outcome at one node: the accepted child by its index among the siblings, or the token emitted instead.
struct node_verdict {
    index_t child = none;   ///< which candidate was accepted; `none`: none of them
    token_id token = none;  ///< the emitted token; the accepted candidate's when there is one
};

}  // namespace verify
}  // namespace MULTIDRAFT_NAMESPACE

namespace MULTIDRAFT_NAMESPACE::verify {

/// The tokens of a node's children in the order drawn; the first `certain` of them were not drawn (0 for laws without
/// certain children). Converts from and to a span of tokens.
struct candidate_list {
    span<token_id const> tokens;
    index_t certain = 0;

    candidate_list() = default;
    /// The tokens in the order drawn, the certain ones first.
    MULTIDRAFT_HD constexpr candidate_list(span<token_id const> of_children, index_t certain_ones = 0) noexcept
        : tokens(of_children), certain(certain_ones) {}
    /// Draws only, from any contiguous range of tokens.
    template <class R>
    requires(std::ranges::contiguous_range<R> && !std::same_as<std::remove_cvref_t<R>, span<token_id const>> &&
             std::convertible_to<R&&, span<token_id const>>) constexpr candidate_list(R&& of_children) noexcept
        : tokens(static_cast<R&&>(of_children)) {}
    /// All tokens, without the count of certain ones.
    MULTIDRAFT_HD constexpr operator span<token_id const>() const noexcept { return tokens; }

    /// How many candidates there are.
    [[nodiscard]] MULTIDRAFT_HD constexpr index_t count() const noexcept { return static_cast<index_t>(tokens.size()); }
    /// How many of them were drawn.
    [[nodiscard]] MULTIDRAFT_HD constexpr index_t draws() const noexcept { return count() - certain; }
    /// The token of a child.
    [[nodiscard]] MULTIDRAFT_HD constexpr token_id operator[](index_t child) const noexcept { return tokens[child]; }
    /// The tokens that are certain.
    [[nodiscard]] MULTIDRAFT_HD constexpr span<token_id const> certain_tokens() const noexcept {
        return tokens.first(static_cast<std::size_t>(certain));
    }
    /// The first child that is this token, or `none`.
    [[nodiscard]] MULTIDRAFT_HD constexpr index_t find(token_id x) const noexcept {
        for (index_t k = 0; k < count(); ++k)
            if ((*this)[k] == x) return k;
        return none;
    }
};

/// The child with this token, emitted from a residual, which then counts as accepted; else the token.
[[nodiscard]] MULTIDRAFT_HD inline node_verdict found_among(candidate_list candidates, token_id emitted) {
    return {emitted == none ? none : candidates.find(emitted), emitted};
}

/// The children of a node that were drawn. The trees of a batch may have slots without a child, the last ones
/// (`is_absent`).
[[nodiscard]] MULTIDRAFT_HD inline node_range present_children(tree_view tree, node_id node) {
    auto children = tree.children(node);
    while (children.count > 0 && is_absent(tree.tokens[children.end() - 1])) --children.count;
    return children;
}

/// The same for a group; the trees of one that throws have no such slots.
template <class G>
[[nodiscard]] MULTIDRAFT_HD node_range present_children(tree_view tree, node_id node) {
    if constexpr (G::throws)
        return tree.children(node);
    else
        return present_children(tree, node);
}

/// How many children of a node are certain; 0 for laws without certain children. `none` where an unchecked tree has no
/// valid count.
template <draft_law Law>
[[nodiscard]] MULTIDRAFT_HD index_t certain_of([[maybe_unused]] drafted<Law> const& tree,
                                               [[maybe_unused]] node_range children, [[maybe_unused]] node_id node) {
    if constexpr (counts_certain<Law>) {
        auto const at = static_cast<std::size_t>(node);
        if (at >= tree.certain.size()) return none;
        index_t const certain = tree.certain[at];
        return certain >= 0 && certain <= children.count ? certain : none;
    } else {
        return 0;
    }
}

/// Whether the children of a node are possible under a law with certain children: there are at most as many certain
/// ones as children, their tokens differ, and none of them was drawn again. O(n^2) for n children; `certain` is the
/// tree's count.
[[nodiscard]] MULTIDRAFT_HD inline bool is_certain_count(span<token_id const> children, index_t certain) {
    auto const n = static_cast<index_t>(children.size());
    if (certain < 0 || certain > n) return false;
    bool apart = true;
    for (index_t k = 0; k < n; ++k)
        for (index_t c = 0; c < k && c < certain; ++c) apart = apart && children[c] != children[k];
    return apart;
}

/// Whether a node and all its ancestors were drawn. No verifier reads anything below a child that could not be drawn.
/// O(depth). Meaningless if the parents do not form a tree.
[[nodiscard]] MULTIDRAFT_HD inline bool is_present(tree_view tree, node_id node) {
    while (node > 0) {
        if (is_absent(tree.tokens[node])) return false;
        node_id const up = tree.parents[node];
        if (up >= node) return true;
        node = up;
    }
    return true;
}

/// Whether a drawn child (not the root) has the token of an earlier sibling, which is impossible under laws that draw
/// different tokens. O(children + depth).
[[nodiscard]] MULTIDRAFT_HD inline bool is_drawn_again(tree_view tree, node_id child) {
    auto const at = [](node_id v) { return static_cast<std::size_t>(v); };
    for (node_id v = child - 1; v > 0 && tree.parents[at(v)] == tree.parents[at(child)]; --v)
        if (tree.tokens[at(v)] == tree.tokens[at(child)]) return is_present(tree, child);
    return false;
}

/// The tokens of a node's children; `children` are those that were drawn.
template <draft_law Law>
[[nodiscard]] MULTIDRAFT_HD candidate_list candidates_of(drafted<Law> const& tree, node_range children, node_id node) {
    return candidate_list(
        tree.tree.tokens.subspan(static_cast<std::size_t>(children.first), static_cast<std::size_t>(children.count)),
        certain_of(tree, children, node));
}

}  // namespace MULTIDRAFT_NAMESPACE::verify
