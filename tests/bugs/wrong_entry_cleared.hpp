// Bug: after a refusal the entry of the loop index is removed from q, not that of the drafted token.
#pragma once

#include "bugs/plain_rejection.hpp"

namespace multidraft::bugs {

/// As printed in the RSD paper, Alg. 6 line 23.
struct wrong_entry_cleared : verify::node_by_node<wrong_entry_cleared, law::sequential> {
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
            take_out(d, index);
        }
        return {none, draw(g, r, source, site(purpose::residual, 0))};
    }
};

}  // namespace multidraft::bugs
