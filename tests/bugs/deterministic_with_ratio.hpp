// Bug: candidates without randomness are verified with the ratio p / q.
#pragma once

#include "multidraft/law/law.hpp"
#include "multidraft/verify/recursive_rejection.hpp"

namespace multidraft::bugs {

/// The top tokens of q are drafted with certainty (EAGLE, Medusa, beam search) and verified as if they had been
/// sampled. Published engines have shipped this.
struct deterministic_with_ratio : verify::node_by_node<deterministic_with_ratio, law::deterministic> {
    static constexpr multidraft::verify::verifier_traits traits{};
    template <group G, distribution P, distribution Q, draw_source Source>
    [[nodiscard]] verify::node_verdict decide(G const& g, P const& p, Q const& q, span<token_id const> candidates,
                                              Source& source, draw_site site) const {
        return verify::recursive_rejection<multidraft::law::sequential>{}.decide(g, p, q, candidates, source, site);
    }
};

}  // namespace multidraft::bugs
