// Bug: drafts without replacement are verified as if they had been independent.
#pragma once

#include "multidraft/law/law.hpp"
#include "multidraft/verify/recursive_rejection.hpp"

namespace multidraft::bugs {

/// The sampler was changed from `multinomial(replacement=True)` to Gumbel-top-k; the verifier, which never renormalises
/// q without the tokens drawn, was not. (To clear their entries without renormalising has the same law: the residual of
/// a refused token is 0 already.)
struct sequential_as_iid : verify::node_by_node<sequential_as_iid, law::sequential> {
    static constexpr multidraft::verify::verifier_traits traits{};
    template <group G, distribution P, distribution Q, draw_source Source>
    [[nodiscard]] verify::node_verdict decide(G const& g, P const& p, Q const& q, span<token_id const> candidates,
                                              Source& source, draw_site site) const {
        return verify::recursive_rejection<multidraft::law::iid>{}.decide(g, p, q, candidates, source, site);
    }
};

}  // namespace multidraft::bugs
