// Bug: nested ranked block verification of trees whose shape depends on siblings.
#pragma once

#include "multidraft/testing/small_step.hpp"

namespace multidraft::bugs {

/// The number of children of a node depends on the tokens of its level, including siblings and cousins. A quantile
/// depends on the subtree below, so such a number carries information about quantiles that selections above have used.
/// (Depending on the node's own context alone is lossless, and so is this with fresh ranks, as in `ranked_block`.)
inline testing::shape_rule shape_by_siblings() {
    return {"shape_by_siblings", [](testing::undrawn_node const& v) {
                index_t sum = 0;
                for (node_id u = v.tree.size() - 1; u > 0; --u)
                    if (v.tree.depth(u) == v.depth) sum += v.tree.tokens[static_cast<std::size_t>(u)];
                return v.node == 0 ? index_t{2} : (sum + v.tree.tokens[static_cast<std::size_t>(v.node)]) % 3;
            }};
}

}  // namespace multidraft::bugs
