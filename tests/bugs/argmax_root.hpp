// Bug: the token after the accepted path is the target's most likely one, at any temperature.
#pragma once

#include <cstddef>

#include "multidraft/law/law.hpp"
#include "multidraft/lossy/typical_acceptance.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/verify/traits.hpp"
#include "multidraft/verify/verifier.hpp"

namespace multidraft::bugs {

/// Medusa's `evaluate_posterior` and `generate_candidates`: typical acceptance along the tree, and then the root of the
/// next tree is the argmax of the target's row.
struct argmax_root : verify::whole_tree<argmax_root, multidraft::law::deterministic> {
    static constexpr verify::verifier_traits traits{.reads_draft = false};

    static constexpr std::size_t scratch_bytes(node_id nodes, std::int32_t depth) {
        return lossy::typical_acceptance<multidraft::law::deterministic>::scratch_bytes(nodes, depth);
    }

    template <group G, class Target, class Draft, draw_source Source>
    verdict decide_tree(G const& g, drafted<multidraft::law::deterministic> const& drafts, Target const& target,
                        Draft const& draft, Source& source, std::int32_t position, span<node_id> path,
                        span<std::byte> scratch) const {
        verdict result = lossy::typical_acceptance<multidraft::law::deterministic>{}.decide_tree(
            g, drafts, target, draft, source, position, path, scratch);
        auto const row = target(g, result.accepted > 0 ? path[result.accepted - 1] : 0);
        result.next = 0;
        for (token_id x = 1; x < row.size(); ++x)
            if (row(x) > row(result.next)) result.next = x;
        return result;
    }
};

}  // namespace multidraft::bugs
