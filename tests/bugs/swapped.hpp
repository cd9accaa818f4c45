// Bug: the roles of p and q are exchanged.
#pragma once

#include "bugs/plain_rejection.hpp"

namespace multidraft::bugs {

/// The RSD paper calls the draft p and the target q, other papers use the opposite convention. Someone who copies a
/// formula from one into code with the names of the other accepts with q / p and emits from (q - p)+.
template <draft_law Law>
struct swapped : verify::node_by_node<swapped<Law>, Law> {
    static constexpr multidraft::verify::verifier_traits traits{};
    template <group G, distribution P, distribution Q, draw_source Source>
    [[nodiscard]] verify::node_verdict decide(G const& g, P const& p, Q const& q, span<token_id const> candidates,
                                              Source& source, draw_site site) const {
        auto r = copy_of(q);
        auto d = copy_of(p);
        for (std::size_t k = 0; k < candidates.size(); ++k) {
            token_id const x = candidates[k];
            auto const index = static_cast<index_t>(k);
            if (source.bernoulli(site(purpose::acceptance, index), r[at(x)], d[at(x)])) return {index, x};
            subtract(r, d);
            if constexpr (std::is_same_v<Law, law::sequential>) take_out(d, x);
        }
        return {none, draw(g, r, source, site(purpose::residual, 0))};
    }
};

}  // namespace multidraft::bugs
