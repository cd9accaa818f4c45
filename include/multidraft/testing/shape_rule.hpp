// Shapes that depend on what is drawn, for proofs: how many children a node gets, as a function of the tree so far.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "multidraft/core/config.hpp"
#include "multidraft/tree/topology.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

/// A node before its children are drawn. What a rule may look at without a bias depends on the verifier
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

/// How many children each node is to have, at most as many as the shape says that the proof grows; a shape alone
/// without a function.
struct shape_rule {
    std::string name;
    std::function<index_t(undrawn_node const&)> children;

    /// The number for a node that the shape has `most` for.
    template <class Row>
    [[nodiscard]] index_t operator()(tree_view tree, node_id node, std::int32_t depth, Row const& q,
                                     index_t most) const {
        if (!children) return most;
        std::vector<double> const row(q.begin(), q.end());
        return std::clamp(children({tree, node, depth, row}), 0, most);
    }
};

}  // namespace MULTIDRAFT_NAMESPACE::testing
