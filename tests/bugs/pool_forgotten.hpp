// Bug: tokens are pooled when they are ranked, but the law of the candidate treats them individually.
#pragma once

#include "multidraft/law/law.hpp"
#include "multidraft/verify/ranked.hpp"

namespace multidraft::bugs {

/// Accepts the candidate by the density at its own ratio.
struct pool_forgotten : verify::node_by_node<pool_forgotten, law::iid> {
    static constexpr multidraft::verify::verifier_traits traits{.lossless = true};

    template <class G, class P, class Q, class Source>
    verify::node_verdict decide(G const& g, P const& p, Q const& q, verify::candidate_list candidates, Source& source,
                                draw_site site) const {
        using real = probability_of<P>;
        verify::detail::ranked_rows<P, verify::detail::in_units_of<Q, real>> rows(
            g, p, verify::detail::in_units<real>(q), candidates);
        verify::detail::rank_table table;
        verify::detail::grid_density<real> density[verify::detail::rank_table::grid_points];
        if (!rows.template build<false>(g, verify::detail::best_rank_cdf{candidates.draws()}, table, density))
            return {};
        index_t const best = verify::detail::best_ranked(table, rows.where, candidates, source, site);
        token_id const x = candidates[best];
        rows.where.pooled = 0;
        auto const m = rows.law(density);
        if (source.bernoulli(site(purpose::acceptance, 0), p(x), m(x))) return {best, x};
        auto const r = verify::residual_of_path(p, m, real(1));
        auto const sums = g.sum_chunks(p.size(), r);
        return found_among(candidates, source.categorical(g, sums, p.size(), r, {}, site(purpose::residual, 0)));
    }
};

}  // namespace multidraft::bugs
