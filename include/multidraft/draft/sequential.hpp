// Draws without replacement, one after another, by look-ups in one set of chunk sums.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "multidraft/base/span.hpp"
#include "multidraft/draft/sampler.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/distribution.hpp"

namespace MULTIDRAFT_NAMESPACE::draft {

/// Draws n different tokens: x_k from q with x_1 .. x_{k-1} removed and renormalised ([MCSD] 3.2, [RSD] (5)-(7)).
///
/// Each draw is one look-up; the chunk of the drawn token is then summed again without it, so the remaining mass is
/// never computed as a difference. Cost: two chunks of the row for each token drawn, independent of V, and no noise per
/// vocabulary entry (see `gumbel_top_k` for the form that draws all n in one pass). When the support of q is smaller
/// than n, the whole support is drawn.
struct sequential {
    using law = multidraft::law::sequential;

    template <group G, distribution Q, class Sums, draw_source Source>
    MULTIDRAFT_HD drawn_children operator()(G const& g, Q const& q, Sums sums, Source& source, draw_site site,
                                            span<token_id> out) const {
        weight_of const w{q};
        for (std::size_t k = 0; k < out.size(); ++k) {
            if (!can_draw(sums)) return {static_cast<index_t>(k)};
            span<token_id const> const taken = out.first(k);
            index_t const x =
                source.categorical(g, sums, q.size(), w, taken, site(purpose::draft, static_cast<index_t>(k)));
            if (x == none) return {static_cast<index_t>(k)};
            out[k] = x;
            if (k + 1 < out.size()) g.update_chunk(sums, q.size(), w, out.first(k + 1), x);
        }
        return {static_cast<index_t>(out.size())};
    }
};

}  // namespace MULTIDRAFT_NAMESPACE::draft
