// The token that ends a path: drawn from a row or a residual, with the rule for a residual that has no mass.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/group/optional_members.hpp"
#include "multidraft/random/draw_site.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/rows/row_source.hpp"
#include "multidraft/verify/candidates.hpp"
#include "multidraft/verify/verdict.hpp"

namespace MULTIDRAFT_NAMESPACE::verify {

/// A token from p, by the chunk sums of its weights. One chunk. `none` when p has no mass (a row of NaN).
template <group G, distribution P, class Sums, draw_source Source>
[[nodiscard]] MULTIDRAFT_HD token_id emit_from_sums(G const& g, P const& p, Sums const& sums, Source& source,
                                                    draw_site site) {
    if (!(sums.total > 0)) return none;
    return source.categorical(g, sums, p.size(), weight_of{p}, {}, site(purpose::residual, 0));
}

/// A token from p. One pass. `none` when p has no mass (a row of NaN).
template <group G, distribution P, draw_source Source>
[[nodiscard]] MULTIDRAFT_HD token_id emit(G const& g, P const& p, Source& source, draw_site site) {
    return emit_from_sums(g, p, g.sum_chunks(p.size(), weight_of{p}), source, site);
}

/// A token from the target's row at a node whose row is not used otherwise.
///
/// Rows that are normalised when read have the chunk sums of their weights at that moment. `target.with_sums(g, node)`
/// returns them with the row, a `processed_row`, and saves the pass of `emit`. One pass or none, and one chunk. `none`
/// when the row has no mass.
template <group G, row_source<G> Target, draw_source Source>
[[nodiscard]] MULTIDRAFT_HD token_id emit_at(G const& g, Target const& target, node_id node, Source& source,
                                             draw_site site) {
    if constexpr (has_with_sums<Target, G>) {
        auto const p = target.with_sums(g, node);
        return emit_from_sums(g, p.row, p.sums, source, site);
    } else {
        return emit(g, target(g, node), source, site);
    }
}

/// A token from p without the rejected candidates, or from p when nothing else has mass.
///
/// For a residual (r - q)+ that vanished by rounding (p equal to q up to rounding), which has probability 0 in exact
/// arithmetic.
template <group G, distribution P, draw_source Source>
[[nodiscard]] MULTIDRAFT_HD token_id emit_undrafted(G const& g, P const& p, span<token_id const> rejected,
                                                    Source& source, draw_site site) {
    weight_of const w{p};
    auto sums = g.sum_chunks(p.size(), w);

    MULTIDRAFT_ROLL
    for (token_id const x : rejected) g.update_chunk(sums, p.size(), w, rejected, x);
    if (!(sums.total > 0)) return emit(g, p, source, site);
    return source.categorical(g, sums, p.size(), w, rejected, site(purpose::residual, 0));
}

/// A token from a residual r of p with the chunk sums `sums`; where it vanished, by `emit_undrafted`. One chunk. `none`
/// when it holds NaN.
template <group G, distribution P, class Residual, class Sums, draw_source Source>
[[nodiscard]] MULTIDRAFT_HD token_id emit_residual(G const& g, P const& p, Residual const& r, Sums const& sums,
                                                   span<token_id const> rejected, Source& source, draw_site site) {
    if (sums.total > 0) return source.categorical(g, sums, p.size(), r, {}, site(purpose::residual, 0));
    if (sums.total != sums.total) return none;
    return emit_undrafted(g, p, rejected, source, site);
}

/// A token from a residual r of p, as `emit_residual`. If it is among the candidates it counts as accepted, except
/// where the residual vanished. One pass and one chunk.
template <group G, distribution P, class Residual, draw_source Source>
[[nodiscard]] MULTIDRAFT_HD node_verdict emit_or_accept(G const& g, P const& p, Residual const& r,
                                                        candidate_list candidates, span<token_id const> rejected,
                                                        Source& source, draw_site site) {
    auto const sums = g.sum_chunks(p.size(), r);
    token_id const x = emit_residual(g, p, r, sums, rejected, source, site);
    return sums.total > 0 ? found_among(candidates, x) : node_verdict{none, x};
}

}  // namespace MULTIDRAFT_NAMESPACE::verify
