// Bringing a tree whose nodes are in any order into level order: from its links, or from its parents.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/tree/sibling_links.hpp"
#include "multidraft/tree/topology.hpp"

namespace MULTIDRAFT_NAMESPACE {

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
