// Ranked verification of one node from a histogram: no sort, no memory of the vocabulary's size.
#pragma once

#include <cstddef>
#include <type_traits>

#include "multidraft/core/config.hpp"
#include "multidraft/core/group.hpp"
#include "multidraft/core/span.hpp"
#include "multidraft/distribution/distribution.hpp"
#include "multidraft/draft/law.hpp"
#include "multidraft/random/place.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/verify/block_weights.hpp"
#include "multidraft/verify/emit.hpp"
#include "multidraft/verify/node_by_node.hpp"
#include "multidraft/verify/rank_table.hpp"
#include "multidraft/verify/verdict.hpp"

namespace multidraft::verify {

/// Ranked verification (ours), binned: every draw gets a rank by the ratio p/q of its token, the best one is the
/// candidate, and the candidate is corrected against its exact law m: accepted with probability min(1, p / m), else a
/// token from Norm[(p - m)+] is emitted, which may be one of the certain children.
///
/// Lossless for `law::iid` and `law::stratified`, exactly: m is the law that the ranks really give, also where the
/// histogram is coarse. Its acceptance rate is alpha*, the largest of any lossless verifier of these laws (Optimal MDSD
/// (8)), less what the knots cost: below 1e-3 (see `ratio_knots`, `rank_table::build`).
///
/// Cost: one count over p and q for rows of floats (two for doubles) and 15 KiB of the lane's own memory; one more
/// pass when the candidate is refused. For groups of all kinds; the exact form by sorting is `ranked`. A candidate to
/// which q gives no mass cannot have been drawn: the verdict is "no token", an `invalid_input` on the host.
template <draft_law Law>
class binned_ranked : public node_by_node<binned_ranked<Law>, Law> {
    static_assert(ranked_law<Law>::value,
                  "multidraft: verify::binned_ranked is for candidates drawn independently, law::iid and "
                  "law::stratified; for law::sequential use verify::recursive_rejection or verify::traversal; "
                  "verify::naive<Law> fits every law");

public:
    static constexpr bool lossless = true;

    template <group G, distribution P, distribution Q, draw_source Source>
    [[nodiscard]] MULTIDRAFT_HD node_verdict decide(G const& g, P const& p, Q const& q, span<token_id const> candidates,
                                                    Source& source, place where) const {
        using real = probability_of<P>;
        for (token_id const x : candidates)
            if (!(q(x) > 0)) return {};
        ranked_rows<P, Q> rows(g, p, q, candidates, ranked_law<Law>::certain(q, candidates));
        rank_table table;
        knot_density<real> density[rank_table::knots];
        if (!rows.template build<false>(g, best_of{rows.draws()}, table, density)) return {};
        index_t const best = best_ranked(table, rows, source, where);
        token_id const x = candidates[static_cast<std::size_t>(best)];
        auto const m = rows.law(density);
        if (source.coin(where(purpose::acceptance, 0), p(x), m(x))) return {best, x};
        block_residual const r{p, m, real(1)};
        auto const sums = g.weigh(p.size(), r);
        if (!(sums.total > 0)) {
            if (sums.total != sums.total) return {};
            token_id const refused[] = {x};
            return {none, emit_undrafted(g, p, span<token_id const>(refused, 1), source, where)};
        }
        token_id const emitted = source.pick(g, sums, p.size(), r, {}, where(purpose::residual, 0));
        for (std::size_t k = 0; k < candidates.size(); ++k)
            if (candidates[k] == emitted) return {static_cast<index_t>(k), emitted};
        return {none, emitted};
    }
};

}  // namespace multidraft::verify
