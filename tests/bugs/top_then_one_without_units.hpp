// Bug: greedy-optimal verification with 1 / (mass left) in the units of the rows.
#pragma once

#include <cstddef>

#include "bugs/plain_rejection.hpp"
#include "multidraft/base/config.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/verify/node_by_node.hpp"
#include "multidraft/verify/residual.hpp"
#include "multidraft/verify/verdict.hpp"

namespace multidraft::bugs {

/// (p - q / left)+ with an infinite 1 / left is NaN for tokens to which the draft gives no mass.
struct top_then_one_without_units : verify::node_by_node<top_then_one_without_units, law::top_then_one> {
    static constexpr multidraft::verify::verifier_traits traits{.lossless = true};

    template <group G, distribution P, distribution Q, draw_source Source>
    [[nodiscard]] verify::node_verdict decide(G const& g, P const& p, Q const& q, verify::candidate_list candidates,
                                              Source& source, draw_site site) const {
        using real = probability_of<P>;
        if (candidates.draws() == 0) return verify::found_among(candidates, verify::emit(g, p, source, site));
        auto d = copy_of(q);
        for (token_id const t : candidates.certain_tokens()) d[at(t)] = 0;
        real left = 0;
        for (real const x : d) left += x;
        token_id const x = candidates[candidates.certain];
        if (source.bernoulli(site(purpose::acceptance, 0), p(x) * left, d[at(x)])) return {candidates.certain, x};
        auto rest = copy_of(p);
        real mass = 0;
        for (std::size_t i = 0; i < rest.size(); ++i) {
            rest[i] -= real(1) / left * d[i];
            if (rest[i] != rest[i]) return {};
            if (rest[i] < 0) rest[i] = 0;
            mass += rest[i];
        }
        if (!(mass > 0)) return {none, verify::emit_undrafted(g, p, candidates, source, site)};
        return verify::found_among(candidates, draw(g, rest, source, site(purpose::residual, 0)));
    }
};

}  // namespace multidraft::bugs
