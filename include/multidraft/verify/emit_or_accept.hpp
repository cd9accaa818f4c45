// The token emitted at a node whose residual may contain the candidates.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/random/draw_site.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/verify/candidates.hpp"
#include "multidraft/verify/emit.hpp"
#include "multidraft/verify/verdict.hpp"

namespace MULTIDRAFT_NAMESPACE::verify {

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
