// The shapes of trees that a verifier accepts.
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

}  // namespace MULTIDRAFT_NAMESPACE
