// Bug: independent drafts are verified as if they had been drawn without replacement.
#pragma once

#include "multidraft/law/law.hpp"
#include "multidraft/verify/recursive_rejection.hpp"

namespace multidraft::bugs {

/// The better verifier is used without the sampler that belongs to it. A second draw of a token is then verified
/// against a q in which it has no mass.
struct iid_as_sequential : verify::node_by_node<iid_as_sequential, law::iid> {
    static constexpr multidraft::verify::verifier_traits traits{};
    template <group G, distribution P, distribution Q, draw_source Source>
    [[nodiscard]] verify::node_verdict decide(G const& g, P const& p, Q const& q, span<token_id const> candidates,
                                              Source& source, draw_site site) const {
        return verify::recursive_rejection<multidraft::law::sequential>{}.decide(g, p, q, candidates, source, site);
    }
};

}  // namespace multidraft::bugs
