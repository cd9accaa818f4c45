// Ranked verification of one node from a histogram: without sorting, in memory independent of the vocabulary.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/verify/detail/draft_units.hpp"
#include "multidraft/verify/detail/rank_table.hpp"
#include "multidraft/verify/node_by_node.hpp"
#include "multidraft/verify/residual.hpp"
#include "multidraft/verify/traits.hpp"
#include "multidraft/verify/verdict.hpp"
#include "multidraft/verify/verifier.hpp"

namespace MULTIDRAFT_NAMESPACE::verify {

/// Ranked verification ([Ranked] 3 and 4), from a histogram: every draw gets a rank by the ratio p/q of its token, and
/// the one with the best rank is the candidate. The candidate has the exact law m. It is accepted with probability
/// min(1, p / m); otherwise a token from Norm[(p - m)+] is emitted, which may be one of the certain children.
///
/// Lossless for `law::iid` and `law::stratified`, exactly: m is the true law of the candidate, however coarse the
/// histogram. The acceptance rate is alpha*, the largest of any lossless verifier of these laws ([OptimalMDSD] (8)),
/// minus the loss due to the grid, which is below 1e-3 (see `ratio_grid`, `rank_table::build`).
///
/// Where every candidate is certain a token is drawn from p. Cost: one counting pass over p and q for rows of floats
/// (two for doubles); one more pass when the candidate is refused. Runs on every group, with scratch. A draw to which q
/// gives no mass cannot have been drawn: the verdict is "no token", an `invalid_input` on the host.
template <draft_law Law>
class ranked : public node_by_node<ranked<Law>, Law> {
    static_assert(is_ranked_law<Law>,
                  "multidraft: verify::ranked is for candidates drawn independently, law::iid and "
                  "law::stratified; for law::sequential use verify::recursive_rejection or verify::traversal; "
                  "verify::naive<Law> fits every law");

public:
    static constexpr verifier_traits traits{.lossless = true};

    /// The sets of one node, and the densities of its law.
    [[nodiscard]] MULTIDRAFT_HD static constexpr std::size_t scratch_bytes(node_id /*nodes*/, std::int32_t /*depth*/) {
        return detail::whole_16(sizeof(detail::rank_table)) +
               detail::rank_table::grid_points * sizeof(detail::grid_density<double>);
    }

    /// The decision at one node, by a histogram of p / q and the rank table in `scratch`. No token where a draw cannot
    /// have come from q, or a row holds NaN.
    template <group G, distribution P, distribution Q, draw_source Source>
    [[nodiscard]] MULTIDRAFT_HD node_verdict decide(G const& g, P const& p, Q const& q, candidate_list candidates,
                                                    Source& source, draw_site site, span<std::byte> scratch) const {
        using real = probability_of<P>;
        if (!detail::may_be_drawn(q, candidates)) return {};
        if (candidates.draws() == 0) return found_among(candidates, emit(g, p, source, site));
        detail::ranked_rows<P, detail::in_units_of<Q, real>> rows(g, p, detail::in_units<real>(q), candidates);
        auto& table = *reinterpret_cast<detail::rank_table*>(scratch.data());
        auto* const density = reinterpret_cast<detail::grid_density<real>*>(
            scratch.data() + detail::whole_16(sizeof(detail::rank_table)));
        g.barrier();  // every lane has finished with the sets of the node above
        if (!rows.template build<true>(g, detail::best_rank_cdf{candidates.draws()}, table, density)) return {};
        index_t const best = detail::best_ranked(table, rows.where, candidates, source, site);
        token_id const x = candidates[best];
        auto const m = rows.law(density);
        if (source.bernoulli(site(purpose::acceptance, 0), p(x), m(x))) return {best, x};
        auto const r = residual_of_path(p, m, real(1));
        return emit_or_accept(g, p, r, candidates, span<token_id const>(&x, 1), source, site);
    }
};

}  // namespace MULTIDRAFT_NAMESPACE::verify
