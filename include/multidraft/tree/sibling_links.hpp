// Trees by links: each node's first child and next sibling, as in engines.
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
/// node linked twice, no link to the root. Nodes without a link to them are allowed. O(N), allocates.
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

}  // namespace MULTIDRAFT_NAMESPACE
