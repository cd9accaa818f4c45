// Bug: every candidate is verified against the target itself.
#pragma once

#include "bugs/plain_rejection.hpp"

namespace multidraft::bugs {

/// The loop over the candidates was written around the test for one candidate, and the residual is computed only when
/// the loop has ended. The second candidate is then accepted with p / q although the first was refused.
template <draft_law Law>
struct residual_not_updated : verify::node_by_node<residual_not_updated<Law>, Law> {
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
            bool const last = k + 1 == candidates.size();
            if (last) subtract(r, d);
            if constexpr (std::is_same_v<Law, law::sequential>) take_out(d, x);
        }
        return {none, draw(g, r, source, site(purpose::residual, 0))};
    }
};

}  // namespace multidraft::bugs
