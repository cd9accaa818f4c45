// Shapes that depend on draws, for proofs: the number of children of a node as a function of the tree so far.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/tree/topology.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

/// A node before its children are drawn. What a rule may use without bias depends on the verifier
/// (`verify::shape_may_depend_on`).
struct undrawn_node {
    tree_view tree;  ///< what was drawn so far: all nodes of this level, and children of those before this one
    node_id node = 0;
    std::int32_t depth = 0;         ///< of the node
    std::span<double const> draft;  ///< q there

    /// The tokens from the root's child down to the node: with q along them its own context.
    [[nodiscard]] std::vector<token_id> path() const {
        std::vector<token_id> tokens;
        for (node_id v = node; v > 0; v = tree.parent(v)) tokens.push_back(tree.tokens[v]);
        std::reverse(tokens.begin(), tokens.end());
        return tokens;
    }
};

/// The number of children of each node, at most as many as in the proof's shape; without a function the shape itself.
struct shape_rule {
    std::string name;
    std::function<index_t(undrawn_node const&)> children;

    /// The number for a node with `most` children in the shape.
    template <class Row>
    [[nodiscard]] index_t operator()(tree_view tree, node_id node, std::int32_t depth, Row const& q,
                                     index_t most) const {
        if (!children) return most;
        std::vector<double> const row(q.begin(), q.end());
        return std::clamp(children({tree, node, depth, row}), 0, most);
    }
};

}  // namespace MULTIDRAFT_NAMESPACE::testing
