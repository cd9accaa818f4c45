// Which trees a verifier takes: their shapes, and what these may depend on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "multidraft/base/config.hpp"
#include "multidraft/tree/topology.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// The trees that a verifier, or a method, accepts.
enum class allowed_trees : std::uint8_t {
    any,
    pairs,  ///< up to two children per node
    forks,  ///< paths of one length that branch at the root, K x 1 x 1 ..
    chains  ///< one child per node
};

/// What these trees have, in words.
[[nodiscard]] constexpr char const* text_of(allowed_trees kind) noexcept {
    switch (kind) {
        case allowed_trees::pairs:
            return "two children per node at most";
        case allowed_trees::forks:
            return "paths of one length that branch at the root alone";
        case allowed_trees::chains:
            return "one child per node";
        default:
            return "any shape";
    }
}

/// The first node that does not fit, or `none`. The tree is in level order (`tree_view::is_tree`). O(nodes).
[[nodiscard]] MULTIDRAFT_HD constexpr node_id first_not_allowed(tree_view tree, allowed_trees kind) noexcept {
    node_id const nodes = tree.size();
    if (kind == allowed_trees::any) return none;
    node_id const paths = kind == allowed_trees::forks ? tree.children(0).count : 1;
    for (node_id v = 1; v < nodes; ++v) {
        bool fits = true;
        if (kind == allowed_trees::pairs)
            fits = v < 3 || tree.parents[v] != tree.parents[v - 2];
        else
            fits = tree.parents[v] == (v <= paths ? 0 : v - paths);
        if (!fits) return v;
    }
    return paths > 0 && (nodes - 1) % paths != 0 ? nodes - 1 : none;
}

/// How many of a node's children may have been drawn, where the law has certain children too.
enum class allowed_draws : std::uint8_t {
    any,
    at_most_one,  ///< all others are certain
    one           ///< as of each node with children
};

/// What the number of children of a node may depend on. Each value includes those before it.
///
/// A verifier is lossless up to one of them (`verify::shape_may_depend_on`): given everything that determined their
/// number, the candidates of a node must have the law that the verifier assumes. The shape may always depend on earlier
/// steps and other requests.
enum class shape_depends_on : std::uint8_t {
    nothing,           ///< of this step: the shape is fixed before its first draw
    own_context,       ///< the tokens from the root to the node and the draft's rows along that path
    earlier_draws,     ///< anything drawn before the node's own children: siblings, cousins
    earlier_siblings,  ///< also those of the node's children that were drawn so far: a stopping rule
    everything         ///< also the child itself: nodes may be left out because of their token
};

}  // namespace MULTIDRAFT_NAMESPACE
