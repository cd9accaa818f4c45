// The outcome of a step of the speculative loop, for drafters that learn from past steps.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "multidraft/base/config.hpp"
#include "multidraft/decode/metrics.hpp"
#include "multidraft/tree/topology.hpp"

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

/// A drafter that gets the outcome of every step: `drafter.learn(outcome)`. The trees of later steps may depend on it,
/// whatever the verifier, since the draws of different steps are independent.
template <class D>
concept learns_from_steps = requires(D& drafter, step_outcome const& outcome) {
    drafter.learn(outcome);
};

}  // namespace MULTIDRAFT_NAMESPACE
