// Bug: recursive rejection with scalars in the units of the rows, for which the draft's remaining mass may be too
// small.
#pragma once

#include <cstddef>
#include <limits>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/verify/node_by_node.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/residual.hpp"

namespace multidraft::bugs {

/// r = (p - c q)+ / z with c <- c + z / (mass left): if the inverse of the remaining mass overflows a float, c is
/// infinite and the residual NaN. `Clamped` keeps it finite, so that nothing throws, and c q no longer reaches p.
template <draft_law Law, bool Clamped>
struct rejection_without_units : verify::node_by_node<rejection_without_units<Law, Clamped>, Law> {
    static constexpr multidraft::verify::verifier_traits traits{.lossless = true};

    template <group G, distribution P, distribution Q, draw_source Source>
    [[nodiscard]] verify::node_verdict decide(G const& g, P const& p, Q const& q, span<token_id const> candidates,
                                              Source& source, draw_site site) const {
        using real = probability_of<P>;
        real c = 0;
        real z = 1;
        real left = 1;
        for (std::size_t k = 0; k < candidates.size(); ++k) {
            token_id const x = candidates[k];
            real const rest = p(x) - c * q(x);
            if (source.bernoulli(site(purpose::acceptance, static_cast<index_t>(k)), (rest > 0 ? rest : real(0)) * left,
                                 z * q(x)))
                return {static_cast<index_t>(k), x};
            c += z / left;
            if (Clamped && c > std::numeric_limits<real>::max()) c = std::numeric_limits<real>::max();
            verify::residual const r{p, q, c};
            auto const sums = g.sum_chunks(p.size(), r);
            z = sums.total;
            if (z != z) return {};
            if (!(z > 0)) return {none, verify::emit_undrafted(g, p, candidates.first(k + 1), source, site)};
            if (k + 1 == candidates.size())
                return {none, source.categorical(g, sums, p.size(), r, {}, site(purpose::residual, 0))};
            if constexpr (std::is_same_v<Law, law::sequential>) {
                auto rest_of_q = g.sum_chunks(q.size(), q);
                for (token_id const t : candidates.first(k + 1))
                    g.update_chunk(rest_of_q, q.size(), q, candidates.first(k + 1), t);
                left = rest_of_q.total;
            }
        }
        return {};
    }
};

}  // namespace multidraft::bugs
