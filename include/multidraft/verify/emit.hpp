// The token that ends a path: drawn from a row or a residual, with the rule for a residual that has no mass.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "multidraft/core/config.hpp"
#include "multidraft/core/group.hpp"
#include "multidraft/core/span.hpp"
#include "multidraft/distribution/distribution.hpp"
#include "multidraft/random/place.hpp"
#include "multidraft/random/source.hpp"

namespace multidraft::verify {

/// A token from p, of whose weights `sums` is the ledger. One chunk. `none` when p has no mass (a row of NaN).
template <group G, distribution P, class Ledger, draw_source Source>
[[nodiscard]] MULTIDRAFT_HD token_id emit_weighed(G const& g, P const& p, Ledger const& sums, Source& source,
                                                  place where) {
    if (!(sums.total > 0)) return none;
    return source.pick(g, sums, p.size(), weight_of{p}, {}, where(purpose::residual, 0));
}

/// A token from p. One pass. `none` when p has no mass (a row of NaN).
template <group G, distribution P, draw_source Source>
[[nodiscard]] MULTIDRAFT_HD token_id emit(G const& g, P const& p, Source& source, place where) {
    return emit_weighed(g, p, g.weigh(p.size(), weight_of{p}), source, where);
}

/// A token from the target's row at a node whose row is needed for nothing else.
///
/// Rows that are normalised when they are asked for have the ledger of their weights at hand then, and hand it out with
/// the row: `target.weighed(g, node)`, a `warped_row`, saves the pass that `emit` makes. One pass or none, and one
/// chunk. `none` when the row has no mass.
template <group G, class Target, draw_source Source>
[[nodiscard]] MULTIDRAFT_HD token_id emit_at(G const& g, Target const& target, node_id node, Source& source,
                                             place where) {
    if constexpr (requires { target.weighed(g, node); }) {
        auto const p = target.weighed(g, node);
        return emit_weighed(g, p.row, p.weights, source, where);
    } else {
        return emit(g, target(g, node), source, where);
    }
}

/// A token from p without the rejected candidates, or from p when nothing else has mass.
///
/// For a residual (r - q)+ that vanished by rounding (p equal to q up to rounding), which has probability 0 in exact
/// arithmetic.
template <group G, distribution P, draw_source Source>
[[nodiscard]] MULTIDRAFT_HD token_id emit_undrafted(G const& g, P const& p, span<token_id const> rejected,
                                                    Source& source, place where) {
    weight_of const w{p};
    auto sums = g.weigh(p.size(), w);

    MULTIDRAFT_ROLL
    for (token_id const x : rejected) g.reweigh(sums, p.size(), w, rejected, x);
    if (!(sums.total > 0)) return emit(g, p, source, where);
    return source.pick(g, sums, p.size(), w, rejected, where(purpose::residual, 0));
}

/// A token from a residual r of p, of whose values `sums` is the ledger; where it vanished, by `emit_undrafted`. One
/// chunk. `none` when it holds NaN.
template <group G, distribution P, class Residual, class Ledger, draw_source Source>
[[nodiscard]] MULTIDRAFT_HD token_id emit_residual(G const& g, P const& p, Residual const& r, Ledger const& sums,
                                                   span<token_id const> rejected, Source& source, place where) {
    if (sums.total > 0) return source.pick(g, sums, p.size(), r, {}, where(purpose::residual, 0));
    if (sums.total != sums.total) return none;
    return emit_undrafted(g, p, rejected, source, where);
}

}  // namespace multidraft::verify
