// How a verification ends: the accepted path of a tree, written for the caller, or the reason why there is no token.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/law/drafted.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/detail/checks.hpp"
#include "multidraft/verify/verdict.hpp"

namespace MULTIDRAFT_NAMESPACE::verify::detail {

/// The verdict that accepts the path from the root to `last`, with the token after it; the leader writes the path, the
/// root left out. Called last, so that a verification that fails leaves the caller's path unchanged.
template <group G>
[[nodiscard]] MULTIDRAFT_HD verdict accepted_path(G const& g, tree_view tree, node_id last, token_id next,
                                                  span<node_id> path) {
    verdict const result{tree.depth(last), next};
    if (g.leader())
        for (std::int32_t k = result.accepted; k-- > 0; last = tree.parent(last)) path[k] = last;
    return result;
}

/// The same; without a token the host reports why (`refuse_node`). `draft`: the draft's rows, or `no_draft_rows` where
/// they were not read.
template <group G, draft_law Law, class Target, class Draft>
[[nodiscard]] MULTIDRAFT_HD verdict accepted_path(G const& g, drafted<Law> const& drafts, Target const& target,
                                                  Draft const& draft, node_id last, token_id next, span<node_id> path) {
    if (next != none) return accepted_path(g, drafts.tree, last, next, path);
    refuse_node_on_host(g, drafts, target, draft, last);
    return {};
}

}  // namespace MULTIDRAFT_NAMESPACE::verify::detail
