// Bug: the draft's row is not renormalised when a refused token is taken out.
#pragma once

#include <cstddef>

#include "bugs/plain_rejection.hpp"

namespace multidraft::bugs {

/// The second candidate was drawn from what is left of q, which sums to less than 1. With three tokens whose first
/// candidates leave a one-hot residual the law is right by chance: two of the best known examples are such.
struct draft_not_renormalised : verify::node_by_node<draft_not_renormalised, law::sequential> {
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
            d[at(x)] = 0;
        }
        return {none, draw(g, r, source, site(purpose::residual, 0))};
    }
};

}  // namespace multidraft::bugs
