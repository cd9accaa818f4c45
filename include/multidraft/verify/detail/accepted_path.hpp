// The accepted path of a tree, written for the caller.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/tree/topology.hpp"

namespace MULTIDRAFT_NAMESPACE::verify::detail {

/// Writes the nodes from the root to `last`, which lies `accepted` levels below it; the root is left out. The leader
/// writes. Called last, so that a verification that fails leaves the caller's path unchanged.
template <group G>
MULTIDRAFT_HD void write_path(G const& g, tree_view tree, node_id last, std::int32_t accepted, span<node_id> path) {
    if (!g.leader()) return;
    for (std::int32_t k = accepted; k-- > 0;) {
        path[k] = last;
        last = tree.parent(last);
    }
}

}  // namespace MULTIDRAFT_NAMESPACE::verify::detail
