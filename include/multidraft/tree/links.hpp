// The trees of engines, by links to the first child and the next sibling or by EAGLE's lists, and their level order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/tree/topology.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// Writes the links of a tree whose nodes are in any order: `first_child[v]` is the child of v with the lowest number,
/// `next_sibling[v]` the next node with the same parent, or -1 (SGLang's `retrive_next_token` and
/// `retrive_next_sibling`). Each array has N entries. O(N), no other memory.
///
/// A node whose parent is itself or not a node gets no link: the root, and nodes that an engine left out.
template <std::integral Id>
MULTIDRAFT_HD void write_links(span<node_id const> parents, span<Id> first_child, span<Id> next_sibling) noexcept {
    auto const nodes = static_cast<node_id>(parents.size());
    for (node_id v = 0; v < nodes; ++v) first_child[v] = next_sibling[v] = Id{-1};
    for (node_id v = nodes; v-- > 0;) {
        node_id const up = parents[v];
        if (up < 0 || up >= nodes || up == v) continue;
        next_sibling[v] = first_child[up];
        first_child[up] = static_cast<Id>(v);
    }
}

/// Throws `invalid_input` unless the links form a tree with root 0: two arrays of one size, each link a node or -1, no
/// node linked twice, no link to the root. Nodes that are not reached from the root are allowed,
/// whatever links they have among themselves. O(N), allocates.
template <std::integral Id>
void validate_links(span<Id const> first_child, span<Id const> next_sibling) {
    if (first_child.empty()) refuse("first_child.size", 0, "a tree has at least its root");
    if (first_child.size() > static_cast<std::size_t>(max_nodes))
        refuse("first_child.size", first_child.size(), "a tree has at most 2^24 nodes");
    if (next_sibling.size() != first_child.size())
        refuse("next_sibling.size", next_sibling.size(), "each node has both links");
    std::vector<bool> linked(first_child.size(), false);
    auto const check = [&](char const* name, span<Id const> links) {
        for (std::size_t v = 0; v < links.size(); ++v) {
            auto const to = static_cast<std::int64_t>(links[v]);
            auto const index = static_cast<std::int64_t>(v);
            if (to == none) continue;
            if (to < 0 || to >= static_cast<std::int64_t>(links.size()))
                refuse(name, index, to, "a link is a node, or -1");
            if (to == 0) refuse(name, index, to, "no link leads to node 0, the root");
            if (linked[static_cast<std::size_t>(to)]) refuse(name, index, to, "a second link leads to this node");
            linked[static_cast<std::size_t>(to)] = true;
        }
    };
    check("first_child", first_child);
    check("next_sibling", next_sibling);
    if (next_sibling[0] != Id{none}) refuse("next_sibling", 0, next_sibling[0], "the root has no sibling");
}

/// The two lists of a tree that was grown with k beams per level and reduced to its best candidates ([EAGLE-2]): the
/// arguments of SGLang's `build_tree_kernel_efficient`.
///
/// Candidates are numbered over all levels. The children of the root are candidates 0 to k - 1; from the second level
/// on each beam of the previous level has k children, in the order of the beams. So candidate c is a child of beam c /
/// k, where beam 0 is the root and beam j is candidate `parents[j]`.
template <std::integral Id>
struct eagle_lists {
    span<Id const> parents;   ///< `parent_list`: k * (levels - 1) + 1 entries; the first is not read
    span<Id const> selected;  ///< `selected_index`: entry v - 1 is the candidate of node v
    std::int32_t beams = 1;   ///< k, `topk`

    /// The parent of node v; -1 for the root and for a node whose parent was not selected. O(N).
    [[nodiscard]] MULTIDRAFT_HD node_id operator()(node_id v) const noexcept {
        if (v < 1) return none;
        auto const candidate = static_cast<std::int64_t>(selected[v - 1]);
        if (candidate < 0) return none;
        std::int64_t const beam = candidate / beams;
        if (beam == 0) return 0;
        if (beam >= static_cast<std::int64_t>(parents.size())) return none;
        Id const above = parents[beam];
        for (std::size_t k = 0; k < selected.size(); ++k)
            if (selected[k] == above) return static_cast<node_id>(k) + 1 == v ? none : static_cast<node_id>(k) + 1;
        return none;
    }
};

/// Brings a tree given by links into level order (see `tree_view`): `order[k]` is the node of the links that becomes
/// node k, `parents[k]` its parent's new number, -1 for the root, node 0. Children keep the order of their links, the
/// order in which they were drawn. `root` is the root's number in the links, a node. Returns the number of nodes that
/// are linked to it; later entries are not written. O(N), no other memory.
///
/// This ends for links that do not form a tree, too: at most N nodes are written, all in [0, N).
template <std::integral Id>
[[nodiscard]] MULTIDRAFT_HD node_id write_level_order(span<Id const> first_child, span<Id const> next_sibling,
                                                      span<node_id> order, span<node_id> parents,
                                                      node_id root = 0) noexcept {
    auto const nodes = static_cast<node_id>(first_child.size());
    if (nodes < 1) return 0;
    order[0] = root;
    parents[0] = none;
    node_id count = 1;
    for (node_id k = 0; k < count; ++k) {
        auto child = static_cast<std::int64_t>(first_child[order[k]]);
        for (; child >= 0 && child != root && child < nodes && count < nodes;
             child = static_cast<std::int64_t>(next_sibling[child])) {
            order[count] = static_cast<node_id>(child);
            parents[count] = k;
            ++count;
        }
    }
    return count;
}

/// The node of `parents` at each index of level order (see `tree_view`): the first is the root, the one whose parent is
/// -1. Siblings keep their order, and children come in the order of their parents. `parents` may name later nodes.
/// O(N).
///
/// Throws `invalid_input` for no node or more than 2^24, a parent that is not a node, a second root, and nodes that are
/// not connected to the root.
[[nodiscard]] inline std::vector<node_id> level_order(span<node_id const> parents) {
    if (parents.empty()) refuse("parents.size", 0, "a tree has at least its root");
    if (parents.size() > static_cast<std::size_t>(max_nodes))
        refuse("parents.size", parents.size(), "a tree has at most 2^24 nodes");
    auto const nodes = static_cast<node_id>(parents.size());
    node_id root = none;
    for (node_id v = 0; v < nodes; ++v) {
        node_id const up = parents[v];
        if (up < none || up >= nodes) refuse("parents", v, up, "a parent is a node, or -1 for the root");
        if (up != none) continue;
        if (root != none) refuse("parents", v, up, "a second root: one node alone has no parent");
        root = v;
    }
    if (root == none) refuse("parents", 0, parents[0], "no node has the parent -1: a tree has a root");
    std::vector<node_id> first_child(parents.size()), next_sibling(parents.size());
    std::vector<node_id> order(parents.size()), sorted(parents.size());
    write_links<node_id>(parents, first_child, next_sibling);
    node_id const count = write_level_order<node_id>(first_child, next_sibling, order, sorted, root);
    if (count < nodes) {
        std::vector<bool> reached(parents.size(), false);
        for (node_id k = 0; k < count; ++k)
            reached[static_cast<std::size_t>(order[static_cast<std::size_t>(k)])] = true;
        std::size_t lost = 0;
        while (reached[lost]) ++lost;
        refuse("parents", static_cast<std::int64_t>(lost), parents[lost], "this node is not connected to the root");
    }
    return order;
}

/// The parents of the nodes in that order. O(N).
[[nodiscard]] inline std::vector<node_id> parents_in_order(span<node_id const> parents, span<node_id const> order) {
    std::vector<node_id> place(parents.size());
    for (std::size_t k = 0; k < order.size(); ++k) place[static_cast<std::size_t>(order[k])] = static_cast<node_id>(k);
    std::vector<node_id> result(order.size());
    for (std::size_t k = 0; k < order.size(); ++k) {
        node_id const up = parents[order[k]];
        result[k] = up == none ? none : place[static_cast<std::size_t>(up)];
    }
    return result;
}

}  // namespace MULTIDRAFT_NAMESPACE
