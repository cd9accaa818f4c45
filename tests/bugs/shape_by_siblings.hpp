// Bug: nested ranked block verification of trees whose shape depends on siblings.
#pragma once

#include "multidraft/testing/shape_rule.hpp"

namespace multidraft::bugs {

/// How many children a node gets depends on the tokens of its level, its siblings' and cousins' among them. A quantile
/// tells upwards what came about below, so such a number says something of quantiles that picks above have used. (By
/// the node's own context alone it is right, and so is this with ranks that are fresh, as `ranked_block` has them.)
inline testing::shape_rule shape_by_siblings() {
    return {"shape_by_siblings", [](testing::undrawn_node const& v) {
                index_t sum = 0;
                for (node_id u = v.tree.size() - 1; u > 0; --u)
                    if (v.tree.depth(u) == v.depth) sum += v.tree.tokens[static_cast<std::size_t>(u)];
                return v.node == 0 ? index_t{2} : (sum + v.tree.tokens[static_cast<std::size_t>(v.node)]) % 3;
            }};
}

}  // namespace multidraft::bugs
