// Bug: one uniform is drawn for a node and compared with the ratio of every candidate.
#pragma once

#include <algorithm>
#include <vector>

#include "bugs/plain_rejection.hpp"

namespace multidraft::bugs {

/// `u = rand()` is before the loop over the candidates instead of inside it. No address is used twice, so only the law
/// of the output can show it. The source gives no uniforms, hence the draw of "the first candidate whose ratio exceeds
/// u", whose law follows from the ratios.
template <draft_law Law>
struct shared_uniform : verify::node_by_node<shared_uniform<Law>, Law> {
    static constexpr multidraft::verify::verifier_traits traits{};
    template <group G, distribution P, distribution Q, draw_source Source>
    [[nodiscard]] verify::node_verdict decide(G const& g, P const& p, Q const& q, span<token_id const> candidates,
                                              Source& source, draw_site site) const {
        using real = probability_of<P>;
        auto r = copy_of(p);
        auto d = copy_of(q);
        std::vector<real> chances;
        real highest = 0;
        for (token_id const x : candidates) {
            real const ratio = d[at(x)] > 0 ? std::min(real(1), r[at(x)] / d[at(x)]) : real(0);
            chances.push_back(std::max(real(0), ratio - highest));
            highest = std::max(highest, ratio);
            subtract(r, d);
            if constexpr (std::is_same_v<Law, law::sequential>) take_out(d, x);
        }
        chances.push_back(1 - highest);
        token_id const chosen = draw(g, chances, source, site(purpose::acceptance, 0));
        if (at(chosen) < candidates.size()) return {chosen, candidates[at(chosen)]};
        return {none, draw(g, r, source, site(purpose::residual, 0))};
    }
};

}  // namespace multidraft::bugs
