// Draft trees: parents in level order, and what is derived from them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/span.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// Nodes with consecutive numbers: first, first + 1, .., first + count - 1.
struct node_range {
    node_id first = 0;
    node_id count = 0;

    /// One past the last node.
    [[nodiscard]] MULTIDRAFT_HD constexpr node_id end() const noexcept { return first + count; }
    /// Whether it has no node.
    [[nodiscard]] MULTIDRAFT_HD constexpr bool empty() const noexcept { return count == 0; }

    friend constexpr bool operator==(node_range const&, node_range const&) = default;
};

/// The largest number of nodes of a tree: the address of a draw has 24 bits for its node.
inline constexpr node_id max_nodes = 1 << 24;

/// A draft tree as verifiers and engines hand it around: two arrays of N entries, not owned.
///
/// Node 0 is the root: the last token of the context, not yet scored by the target. `parents[0]` is -1, `parents[i] <
/// i`, and parents never decrease: the nodes are in level order and the children of a node are consecutive, in the
/// order they were drawn. Row i of the target's output is the distribution after node i.
struct tree_view {
    span<node_id const> parents;
    span<token_id const> tokens;  ///< `tokens[0]` is the root's; the others are drafted

    [[nodiscard]] MULTIDRAFT_HD constexpr node_id size() const noexcept { return static_cast<node_id>(parents.size()); }

    /// The children of a node, in the order drawn. O(log N).
    [[nodiscard]] MULTIDRAFT_HD constexpr node_range children(node_id node) const noexcept {
        node_id const first = first_with_parent(node, node + 1);
        return {first, first_with_parent(node + 1, first) - first};
    }

    /// The parent of a node that is not the root.
    ///
    /// Always an earlier node, the root where `parents` names none. So a walk to the root ends and stays inside the
    /// tree even if `parents` has not been validated.
    [[nodiscard]] MULTIDRAFT_HD constexpr node_id parent(node_id node) const noexcept {
        node_id const up = parents[node];
        return up >= 0 && up < node ? up : 0;
    }

    /// Levels below the root. O(depth), and never more steps than there are nodes (see `parent`).
    [[nodiscard]] MULTIDRAFT_HD constexpr std::int32_t depth(node_id node) const noexcept {
        std::int32_t levels = 0;
        for (node_id v = node; v > 0; v = parent(v)) ++levels;
        return levels;
    }

    /// Whether there is a root and `parents` are a tree in level order. O(N).
    [[nodiscard]] MULTIDRAFT_HD constexpr bool is_tree() const noexcept {
        if (size() < 1 || parents[0] != none) return false;
        node_id before = 0;
        bool good = true;
        for (node_id v = 1; v < size(); ++v) {
            node_id const up = parents[v];
            good = good & (up >= before) & (up < v);
            before = up;
        }
        return good;
    }

private:
    /// The first node at or after `begin` whose parent is at least `parent`.
    [[nodiscard]] MULTIDRAFT_HD constexpr node_id first_with_parent(node_id parent, node_id begin) const noexcept {
        node_id low = begin;
        node_id high = size();
        while (low < high) {
            node_id const middle = low + (high - low) / 2;
            if (parents[middle] < parent)
                low = middle + 1;
            else
                high = middle;
        }
        return low;
    }
};

/// Throws `invalid_input` unless `parents` is a tree in level order (see `tree_view`) of 1 to 2^24 nodes. O(N).
inline void validate_tree(span<node_id const> parents) {
    if (parents.empty()) refuse("parents.size", 0, "a tree has at least its root");
    if (parents.size() > static_cast<std::size_t>(max_nodes))
        refuse("parents.size", parents.size(), "a tree has at most 2^24 nodes");
    if (parents[0] != none) refuse("parents", 0, parents[0], "node 0 is the root and has parent -1");
    for (std::size_t i = 1; i < parents.size(); ++i) {
        auto const index = static_cast<std::int64_t>(i);
        if (parents[i] == none) refuse("parents", index, parents[i], "a second root: node 0 alone has no parent");
        if (parents[i] < 0) refuse("parents", index, parents[i], "a parent is a node");
        if (parents[i] >= index) refuse("parents", index, parents[i], "a parent must come before its child");
        if (parents[i] < parents[i - 1])
            refuse("parents", index, parents[i],
                   "the node before has parent " + std::to_string(parents[i - 1]) +
                       ": nodes stand in level order, so parents never decrease");
    }
}

/// Throws `invalid_input` unless every token is in [0, vocabulary). O(N).
inline void validate_tokens(span<token_id const> tokens, std::int32_t vocabulary) {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
        if (tokens[i] < 0 || tokens[i] >= vocabulary)
            refuse("tokens", static_cast<std::int64_t>(i), tokens[i],
                   "a token is in [0, " + std::to_string(vocabulary) + "), the vocabulary");
    }
}

/// Throws `invalid_input` unless both arrays of `tree` have one length and are valid.
inline void validate_tree(tree_view tree, std::int32_t vocabulary) {
    validate_tree(tree.parents);
    if (tree.tokens.size() != tree.parents.size())
        refuse("tokens.size", tree.tokens.size(),
               "a tree has one token per node, and parents has " + std::to_string(tree.parents.size()));
    validate_tokens(tree.tokens, vocabulary);
}

/// The shape of a tree, and its depths, children, leaves and levels. Owns its arrays; immutable.
class topology {
public:
    /// The root alone.
    topology() : topology(std::vector<node_id>{none}) {}

    /// The tree with these parents, in level order (see `tree_view`). O(N). Throws `invalid_input` if they do not form
    /// a tree.
    [[nodiscard]] static topology from_parents(span<node_id const> parents) {
        validate_tree(parents);
        return topology(std::vector<node_id>(parents.begin(), parents.end()));
    }

    [[nodiscard]] node_id size() const noexcept { return static_cast<node_id>(parents_.size()); }
    /// The parent of each node, `none` for the root.
    [[nodiscard]] std::span<node_id const> parents() const noexcept { return parents_; }
    /// The parent of a node; `none` for the root.
    [[nodiscard]] node_id parent(node_id node) const noexcept { return parents_[at(node)]; }

    /// Levels below the root, per node: 0 for the root.
    [[nodiscard]] std::span<std::int32_t const> depths() const noexcept { return depths_; }
    /// Levels between a node and the root.
    [[nodiscard]] std::int32_t depth(node_id node) const noexcept { return depths_[at(node)]; }

    /// The children of a node; for a leaf an empty range. O(1).
    [[nodiscard]] node_range children(node_id node) const noexcept { return {first_child(node), child_count(node)}; }
    /// The first child of a node; for a leaf the index where it would be.
    [[nodiscard]] node_id first_child(node_id node) const noexcept { return first_child_[at(node)]; }
    /// How many children a node has.
    [[nodiscard]] node_id child_count(node_id node) const noexcept {
        return first_child_[at(node) + 1] - first_child_[at(node)];
    }

    /// The nodes without children, increasing.
    [[nodiscard]] std::span<node_id const> leaves() const noexcept { return leaves_; }

    /// The depth of the deepest node; there are `max_depth() + 1` levels.
    [[nodiscard]] std::int32_t max_depth() const noexcept { return static_cast<std::int32_t>(levels_.size()) - 2; }

    /// The nodes of one depth, in [0, max_depth()].
    [[nodiscard]] node_range level(std::int32_t depth) const noexcept {
        return {levels_[at(depth)], levels_[at(depth) + 1] - levels_[at(depth)]};
    }

    /// The number of nodes of the largest level.
    [[nodiscard]] node_id width() const noexcept { return width_; }

    friend bool operator==(topology const& a, topology const& b) { return a.parents_ == b.parents_; }

private:
    explicit topology(std::vector<node_id> parents)
        : parents_(std::move(parents)), depths_(parents_.size()), first_child_(parents_.size() + 1) {
        node_id const n = size();
        for (node_id i = 0; i < n; ++i) {
            node_id const up = parents_[at(i)];
            std::int32_t const deep = up < 0 ? 0 : depths_[at(up)] + 1;
            depths_[at(i)] = deep;
            if (at(deep) == levels_.size()) levels_.push_back(i);
        }
        levels_.push_back(n);
        for (std::size_t d = 0; d + 1 < levels_.size(); ++d) {
            node_id const here = levels_[d + 1] - levels_[d];
            width_ = here > width_ ? here : width_;
        }
        node_id child = 1;
        for (node_id i = 0; i < n; ++i) {
            first_child_[at(i)] = child;
            while (child < n && parents_[at(child)] == i) ++child;
            if (first_child_[at(i)] == child) leaves_.push_back(i);
        }
        first_child_[at(n)] = n;
    }

    static std::size_t at(std::int32_t i) noexcept { return static_cast<std::size_t>(i); }

    std::vector<node_id> parents_;
    std::vector<std::int32_t> depths_;
    std::vector<node_id> first_child_;  ///< and one more: where the children of node i begin, i = 0..N
    std::vector<node_id> leaves_;
    std::vector<node_id> levels_;  ///< where each level begins, and N
    node_id width_ = 0;
};

}  // namespace MULTIDRAFT_NAMESPACE
