// A draft tree that grows: nodes in the order added, and in level order as verifiers and engines take them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/tree/links.hpp"
#include "multidraft/tree/mask.hpp"
#include "multidraft/tree/topology.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// What is known of the nodes of a tree, one entry for each node.
struct tree_nodes {
    std::vector<node_id> parents;         ///< `none` for the root
    std::vector<token_id> tokens;         ///< the root's is the last one of the text
    std::vector<index_t> ranks;           ///< how many children its parent had when it was added
    std::vector<std::int32_t> depths;     ///< levels below the root
    std::vector<std::int32_t> positions;  ///< in the text
    std::vector<index_t> certain;         ///< how many of its first children are certain, not drawn
    std::vector<node_id> shape_nodes;     ///< the node of the tree's shape that it corresponds to; `none`: of none
    std::vector<index_t>
        entries;  ///< its row of the draft's output, and its entry in the draft's cache; `none`: unread

    [[nodiscard]] node_id size() const noexcept { return static_cast<node_id>(parents.size()); }
    [[nodiscard]] tree_view tree() const noexcept { return {parents, tokens}; }
};

/// A tree to which children are added at any node, for everything that drafts on a host.
///
/// Nodes are numbered as they are added, the root 0: all functions take these numbers. `arrange` brings the nodes into
/// level order, without those removed; it does nothing if children were added level by level, from the first node to
/// the last. The tree may grow afterwards and be arranged again. Memory is kept from one tree to the next: after a tree
/// as large, or after `reserve`, nothing allocates. Nothing is checked except where it says so.
class tree_builder {
public:
    /// A root of token 0 at position 0.
    tree_builder() { start(0, 0); }

    /// Reserves memory for trees of that many nodes.
    void reserve(node_id nodes) {
        auto const n = at(nodes);
        for (tree_nodes* const of : {&added_, &arranged_})
            for (auto* const numbers : columns(*of)) numbers->reserve(n);
        for (auto* const numbers : {&child_counts_, &order_, &place_, &first_child_, &next_sibling_})
            numbers->reserve(n);
        removed_.reserve(n);
        mask_.reset(nodes);  // it is extended to all nodes again
    }

    /// Starts a tree with the root alone.
    void start(token_id root, std::int32_t position) {
        for (auto* const numbers : columns(added_)) numbers->clear();
        child_counts_.clear();
        removed_.clear();
        push(none, root, 0, 0, position, 0);
        mask_.reset(1);
        state_ = state::in_level_order;
    }

    /// Adds a child after the node's other children and returns its number. With a shape it corresponds to the child of
    /// the same rank there, if there is one.
    node_id add(node_id parent, token_id token, topology const* shape = nullptr) {
        auto const up = at(parent);
        if (state_ == state::arranged || parent < added_.parents.back()) state_ = state::mixed;
        index_t const rank = child_counts_[up]++;
        node_id const like = shape == nullptr ? none : added_.shape_nodes[up];
        bool const is_there = like != none && rank < shape->child_count(like);
        push(parent, token, rank, added_.depths[up] + 1, added_.positions[up] + 1,
             is_there ? shape->first_child(like) + rank : none);
        return size() - 1;
    }

    /// Adds all children of a node, of which the first `certain` ones are certain. Returns their numbers.
    node_range add(node_id parent, span<token_id const> tokens, index_t certain, topology const* shape = nullptr) {
        node_range const children{size(), static_cast<node_id>(tokens.size())};
        for (token_id const x : tokens) add(parent, x, shape);
        set_certain(parent, certain);
        return children;
    }

    /// Says how many of the children of a node are certain, the first ones.
    void set_certain(node_id node, index_t certain) { added_.certain[at(node)] = certain; }

    /// Says in which row and cache entry of the draft a node is.
    void set_entry(node_id node, index_t entry) {
        added_.entries[at(node)] = entry;
        if (state_ == state::arranged && place_[at(node)] != none) arranged_.entries[at(place_[at(node)])] = entry;
    }

    /// Removes a node other than the root and everything below it; takes effect with `arrange`.
    void remove(node_id node) { mark(node, is_removed); }
    /// Removes everything below a node; takes effect with `arrange`. Children that are added later are removed, too.
    void remove_below(node_id node) { mark(node, below_is_removed); }

    /// Brings the nodes into level order: children in the order of their parents, siblings in the order added.
    /// O(nodes), or nothing to do.
    void arrange() {
        if (state_ != state::mixed) return;
        auto const n = added_.parents.size();
        // Nodes without a parent are not linked.
        place_.assign(added_.parents.begin(), added_.parents.end());
        for (std::size_t v = 1; v < n && !removed_.empty(); ++v)
            if (is_marked(v, is_removed) || is_marked(at(place_[v]), below_is_removed)) place_[v] = none;
        for (auto* const numbers : {&first_child_, &next_sibling_, &order_, &arranged_.parents}) numbers->resize(n);
        write_links<node_id>(place_, first_child_, next_sibling_);
        auto const count = at(write_level_order<node_id>(first_child_, next_sibling_, order_, arranged_.parents));
        order_.resize(count);
        arranged_.parents.resize(count);
        place_.assign(n, none);
        for (std::size_t k = 0; k < count; ++k) place_[at(order_[k])] = static_cast<node_id>(k);
        take_in_order();
        mask_.reset(1);
        state_ = state::arranged;
    }

    // By the numbers as added.
    /// How many nodes were added, the root and removed ones included.
    [[nodiscard]] node_id size() const noexcept { return added_.size(); }
    /// The nodes in the order added: not a tree that a verifier accepts.
    [[nodiscard]] tree_nodes const& added() const noexcept { return added_; }
    /// How many children were added to a node.
    [[nodiscard]] index_t child_count(node_id node) const noexcept { return child_counts_[at(node)]; }
    /// The place of a node in level order; `none` if it was removed.
    [[nodiscard]] node_id place(node_id node) const noexcept {
        return state_ == state::arranged ? place_[at(node)] : node;
    }

    // In level order.
    /// The nodes in level order. Throws `invalid_input` where `arrange` is missing. Valid until the tree changes.
    [[nodiscard]] tree_nodes const& nodes() const {
        if (state_ == state::arranged) return arranged_;
        if (state_ == state::mixed) refuse_mixed();
        return added_;
    }
    /// The number as added of the node at a place in level order.
    [[nodiscard]] node_id node_at(node_id place) const noexcept {
        return state_ == state::arranged ? order_[at(place)] : place;
    }
    /// Extends the mask to all nodes. O(new nodes x row words). Throws as `nodes` does. `most`: how many nodes there
    /// may be; with more the mask has to move its rows.
    void extend_mask(node_id most = 0) {
        tree_nodes const& all = nodes();
        if (mask_.size() == 0) mask_.reset(std::max(most, all.size()));
        mask_.append(span<node_id const>(all.parents).subspan(at(mask_.size())));
    }
    /// The ancestor mask of the nodes in level order, as far as it was extended.
    [[nodiscard]] mask_view mask() const noexcept { return mask_.view(); }

private:
    enum class state : char {
        in_level_order,  ///< as added
        mixed,           ///< in another order, or with nodes that were removed
        arranged,        ///< `arranged_` has the nodes in level order
    };
    static constexpr char is_removed = 1;
    static constexpr char below_is_removed = 2;

    static std::size_t at(std::int32_t i) noexcept { return static_cast<std::size_t>(i); }

    static std::array<std::vector<std::int32_t>*, 8> columns(tree_nodes& of) noexcept {
        return {&of.parents,   &of.tokens,  &of.ranks,       &of.depths,
                &of.positions, &of.certain, &of.shape_nodes, &of.entries};
    }

    void push(node_id parent, token_id token, index_t rank, std::int32_t depth, std::int32_t position,
              node_id shape_node) {
        added_.parents.push_back(parent);
        added_.tokens.push_back(token);
        added_.ranks.push_back(rank);
        added_.depths.push_back(depth);
        added_.positions.push_back(position);
        added_.certain.push_back(0);
        added_.shape_nodes.push_back(shape_node);
        added_.entries.push_back(none);
        child_counts_.push_back(0);
    }

    void mark(node_id node, char what) {
        if (removed_.size() < added_.parents.size()) removed_.resize(added_.parents.size(), 0);
        removed_[at(node)] = static_cast<char>(removed_[at(node)] | what);
        state_ = state::mixed;
    }
    [[nodiscard]] bool is_marked(std::size_t node, char what) const noexcept {
        return node < removed_.size() && (removed_[node] & what) != 0;
    }

    /// Everything but the parents, which are there.
    void take_in_order() {
        auto const from = columns(added_);
        auto const to = columns(arranged_);
        for (std::size_t c = 1; c < to.size(); ++c) {
            to[c]->clear();
            for (node_id const v : order_) to[c]->push_back((*from[c])[at(v)]);
        }
        // Of the first children some may be removed.
        arranged_.certain.assign(order_.size(), 0);
        for (std::size_t k = 1; k < order_.size(); ++k) {
            auto const up = at(arranged_.parents[k]);
            if (arranged_.ranks[k] < added_.certain[at(order_[up])]) ++arranged_.certain[up];
        }
    }

    [[noreturn]] void refuse_mixed() const {
        if (!added_.tree().is_tree())
            refuse("parents", "not in level order", "the nodes were added in another order: call arrange()");
        refuse("parents", "some left out", "nodes were cut or dropped: call arrange()");
    }

    tree_nodes added_;     ///< in the order added
    tree_nodes arranged_;  ///< in level order, where the state says so
    std::vector<index_t> child_counts_;
    std::vector<char> removed_;   ///< by the number added; nodes beyond its end were not removed
    std::vector<node_id> order_;  ///< the number added of each arranged node
    std::vector<node_id> place_;  ///< the inverse
    std::vector<node_id> first_child_, next_sibling_;
    ancestor_mask mask_;
    state state_ = state::in_level_order;
};

}  // namespace MULTIDRAFT_NAMESPACE
