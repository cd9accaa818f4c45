// Bringing a tree whose nodes are in any order into level order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/tree/topology.hpp"

namespace MULTIDRAFT_NAMESPACE {

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
    // Where the children of each node begin, once they are consecutive.
    std::vector<node_id> begin(parents.size() + 1, 0);
    for (node_id v = 0; v < nodes; ++v) {
        node_id const up = parents[v];
        if (up < none || up >= nodes) refuse("parents", v, up, "a parent is a node, or -1 for the root");
        if (up == none && root != none) refuse("parents", v, up, "a second root: one node alone has no parent");
        if (up == none)
            root = v;
        else
            ++begin[static_cast<std::size_t>(up) + 1];
    }
    if (root == none) refuse("parents", 0, parents[0], "no node has the parent -1: a tree has a root");
    for (std::size_t v = 0; v < parents.size(); ++v) begin[v + 1] += begin[v];
    std::vector<node_id> children(parents.size());
    std::vector<node_id> next(begin.begin(), begin.end() - 1);
    for (node_id v = 0; v < nodes; ++v)
        if (node_id const up = parents[v]; up != none)
            children[static_cast<std::size_t>(next[static_cast<std::size_t>(up)]++)] = v;

    std::vector<node_id> order{root};
    order.reserve(parents.size());
    for (std::size_t k = 0; k < order.size(); ++k) {
        auto const v = static_cast<std::size_t>(order[k]);
        order.insert(order.end(), children.begin() + begin[v], children.begin() + begin[v + 1]);
    }
    if (order.size() < parents.size()) {
        std::vector<bool> reached(parents.size(), false);
        for (node_id const v : order) reached[static_cast<std::size_t>(v)] = true;
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
