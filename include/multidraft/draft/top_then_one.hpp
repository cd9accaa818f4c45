// The most likely tokens and one draw from the rest.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "multidraft/base/span.hpp"
#include "multidraft/draft/certain.hpp"
#include "multidraft/draft/sampler.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/distribution.hpp"

namespace MULTIDRAFT_NAMESPACE::draft {

/// The n - 1 most likely tokens of q, in order, then one draw from the others ([OptimalMDSD] 5.1, "greedy").
///
/// One pass, and a chunk of the row for each token. When the support of q is not larger than n it is drawn as a whole.
/// At temperature 0 the n most likely tokens are certain (n > 1).
struct top_then_one {
    using law = multidraft::law::top_then_one;

    template <group G, distribution Q, class Sums, draw_source Source>
    MULTIDRAFT_HD drawn_children operator()(G const& g, Q const& q, Sums sums, Source& source, draw_site site,
                                            span<token_id> out) const {
        if (out.empty()) return {};
        index_t const top = take_certain(g, q, sums, out, 0.0);
        if (!can_draw(sums)) return {top, top};
        auto const taken = span<token_id const>(out).first(static_cast<std::size_t>(top));
        index_t const x = source.categorical(g, sums, q.size(), weight_of{q}, taken, site(purpose::draft, top));
        if (x == none) return {top, top};
        out[top] = x;
        return {top + 1, top};
    }
};

}  // namespace MULTIDRAFT_NAMESPACE::draft
