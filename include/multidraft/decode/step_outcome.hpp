// The outcome of a step of the speculative loop, for drafters that learn from past steps.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "multidraft/base/config.hpp"
#include "multidraft/decode/metrics.hpp"
#include "multidraft/tree/absent_tokens.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/verdict.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// Seconds of one step, by activity.
struct step_seconds {
    double target = 0;   ///< the target's forward call
    double draft = 0;    ///< forward calls of the draft model
    double library = 0;  ///< drawing, masks, verification, keeping the accepted entries

    /// The seconds counted in `m`.
    [[nodiscard]] static step_seconds of(generation_metrics const& m) noexcept {
        return {m.time.target, m.time.draft, m.time.sample + m.time.mask + m.time.verify + m.time.cache};
    }
    /// The difference from `before`.
    [[nodiscard]] step_seconds since(step_seconds const& before) const noexcept {
        return {target - before.target, draft - before.draft, library - before.library};
    }
};

/// One step after the caches were compacted. Its views are valid during the call only.
struct step_outcome {
    tree_view tree;                 ///< the drafted tree, the root first
    std::span<node_id const> path;  ///< accepted nodes, the root left out, in order
    step_seconds seconds;
};

namespace detail {

/// The nodes of a tree that were drafted, and the levels for which the draft read nodes: one more than the deepest one
/// with a node whose children were to be drawn.
[[nodiscard]] inline std::pair<std::int64_t, std::int32_t> drafted_of(tree_view tree) {
    std::pair<std::int64_t, std::int32_t> found{0, 0};
    for (node_id v = 1; v < tree.size(); ++v) {
        if (!is_absent(tree.tokens[v])) ++found.first;
        if (!is_absent(tree.tokens[tree.parent(v)])) found.second = std::max(found.second, tree.depth(v));
    }
    return found;
}

/// Counts a step that began with the totals `before`: the nodes accepted, and if it is whole (`generation_metrics`) its
/// tokens and the children tried and accepted along their path, by depth and by rank.
inline void count_step(tree_view tree, std::span<node_id const> path, step_counts const& before, bool is_whole,
                       generation_metrics& m) {
    m.accepted += static_cast<std::int64_t>(path.size());
    if (!is_whole) return;
    m.add_whole_step(before, static_cast<std::int64_t>(path.size()) + 1);
    for (std::size_t d = 0; d <= path.size(); ++d) {
        node_id const node = d == 0 ? 0 : path[d - 1];
        node_range const children = verify::present_children(tree, node);
        if (children.count == 0) continue;
        m.tried(d, d < path.size());
        m.tried_ranks(children.count, d < path.size() ? path[d] - children.first : none);
    }
}

}  // namespace detail

/// A drafter that gets the outcome of every step: `drafter.learn(outcome)`. The trees of later steps may depend on it,
/// whatever the verifier, since the draws of different steps are independent.
template <class D>
concept learns_from_steps = requires(D& drafter, step_outcome const& outcome) {
    drafter.learn(outcome);
};

}  // namespace MULTIDRAFT_NAMESPACE
