// Bug: equal candidates are merged before independent drafts are verified.
#pragma once

#include <vector>

#include "multidraft/law/law.hpp"
#include "multidraft/verify/recursive_rejection.hpp"

namespace multidraft::bugs {

/// Two equal children need one row of the target only, so the tree builder keeps one of them. The verifier then tries
/// fewer candidates than were drawn, and their number depends on the draws.
struct merged_duplicates : verify::node_by_node<merged_duplicates, law::iid> {
    static constexpr multidraft::verify::verifier_traits traits{};
    template <group G, distribution P, distribution Q, draw_source Source>
    [[nodiscard]] verify::node_verdict decide(G const& g, P const& p, Q const& q, span<token_id const> candidates,
                                              Source& source, draw_site site) const {
        std::vector<token_id> merged;
        std::vector<index_t> child;
        for (std::size_t k = 0; k < candidates.size(); ++k) {
            bool seen = false;
            for (token_id const x : merged) seen = seen || x == candidates[k];
            if (seen) continue;
            merged.push_back(candidates[k]);
            child.push_back(static_cast<index_t>(k));
        }
        auto decision = verify::recursive_rejection<multidraft::law::iid>{}.decide(g, p, q, merged, source, site);
        if (decision.child != none) decision.child = child[static_cast<std::size_t>(decision.child)];
        return decision;
    }
};

}  // namespace multidraft::bugs
