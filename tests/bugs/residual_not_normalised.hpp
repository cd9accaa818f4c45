// Bug: the residual is compared with q without being normalised.
#pragma once

#include "bugs/plain_rejection.hpp"

namespace multidraft::bugs {

/// The emitted token is drawn in proportion to the residual, so its sum seems not to matter; for the next candidate it
/// does.
template <draft_law Law>
struct residual_not_normalised : verify::node_by_node<residual_not_normalised<Law>, Law> {
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
            auto left = r;
            bool any = false;
            for (std::size_t i = 0; i < r.size(); ++i) {
                left[i] = r[i] > d[i] ? r[i] - d[i] : 0;
                any = any || left[i] > 0;
            }
            if (any) r = left;
            if constexpr (std::is_same_v<Law, law::sequential>) take_out(d, x);
        }
        return {none, draw(g, r, source, site(purpose::residual, 0))};
    }
};

}  // namespace multidraft::bugs
