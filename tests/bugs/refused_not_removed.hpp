// Bug: refused candidates keep their mass in the residual.
#pragma once

#include "bugs/plain_rejection.hpp"

namespace multidraft::bugs {

/// For certain candidates q is one-hot, so a refused candidate must be removed from p. Here it is kept: the next
/// candidates and the emitted token come from a p that still includes refused tokens.
struct refused_not_removed : verify::node_by_node<refused_not_removed, law::deterministic> {
    static constexpr multidraft::verify::verifier_traits traits{};
    template <group G, distribution P, distribution Q, draw_source Source>
    [[nodiscard]] verify::node_verdict decide(G const& g, P const& p, Q const& q, span<token_id const> candidates,
                                              Source& source, draw_site site) const {
        auto const r = copy_of(p);
        static_cast<void>(q);
        for (std::size_t k = 0; k < candidates.size(); ++k) {
            token_id const x = candidates[k];
            auto const index = static_cast<index_t>(k);
            if (source.bernoulli(site(purpose::acceptance, index), r[at(x)], probability_of<P>(1))) return {index, x};
        }
        return {none, draw(g, r, source, site(purpose::residual, 0))};
    }
};

}  // namespace multidraft::bugs
