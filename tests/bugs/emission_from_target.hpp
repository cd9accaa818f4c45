// Bug: when every candidate is refused the token comes from the target instead of the residual.
#pragma once

#include "bugs/plain_rejection.hpp"

namespace multidraft::bugs {

/// "The target's next token is always right" - but not after its likely tokens were tried as candidates.
template <draft_law Law>
struct emission_from_target : verify::node_by_node<emission_from_target<Law>, Law> {
    static constexpr multidraft::verify::verifier_traits traits{};
    template <group G, distribution P, distribution Q, draw_source Source>
    [[nodiscard]] verify::node_verdict decide(G const& g, P const& p, Q const& q, span<token_id const> candidates,
                                              Source& source, draw_site site) const {
        auto r = copy_of(p);
        auto d = copy_of(q);
        for (std::size_t k = 0; k < candidates.size(); ++k) {
            token_id const x = candidates[k];
            auto const index = static_cast<index_t>(k);
            if (source.bernoulli(site(purpose::acceptance, index), r[at(x)], d[at(x)])) return {index, x};
            subtract(r, d);
            if constexpr (std::is_same_v<Law, law::sequential>) take_out(d, x);
        }
        return {none, draw(g, copy_of(p), source, site(purpose::residual, 0))};
    }
};

}  // namespace multidraft::bugs
