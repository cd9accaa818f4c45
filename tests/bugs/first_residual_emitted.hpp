// Bug: after the last candidate the token comes from the residual of the first one.
#pragma once

#include <cstddef>

#include "bugs/plain_rejection.hpp"

namespace multidraft::bugs {

/// Candidates are tested against residuals that are updated, but the one that is emitted from was computed once, after
/// the first refusal.
struct first_residual_emitted : verify::node_by_node<first_residual_emitted, law::sequential> {
    static constexpr multidraft::verify::verifier_traits traits{};
    template <group G, distribution P, distribution Q, draw_source Source>
    [[nodiscard]] verify::node_verdict decide(G const& g, P const& p, Q const& q, span<token_id const> candidates,
                                              Source& source, draw_site site) const {
        auto r = copy_of(p);
        auto d = copy_of(q);
        auto emitted = r;
        for (std::size_t k = 0; k < candidates.size(); ++k) {
            token_id const x = candidates[k];
            auto const index = static_cast<index_t>(k);
            if (source.bernoulli(site(purpose::acceptance, index), r[at(x)], d[at(x)])) return {index, x};
            subtract(r, d);
            take_out(d, x);
            if (k == 0) emitted = r;
        }
        return {none, draw(g, emitted, source, site(purpose::residual, 0))};
    }
};

}  // namespace multidraft::bugs
