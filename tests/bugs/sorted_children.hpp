// Bug: children are sorted by probability after they were drawn.
#pragma once

#include <algorithm>
#include <cstddef>

#include "multidraft/draft/sampler.hpp"
#include "multidraft/draft/sequential.hpp"

namespace multidraft::bugs {

/// "Try the most likely candidate first" - but the order of the draws is part of their law.
struct sorted_children {
    using law = multidraft::law::sequential;

    template <group G, distribution Q, class Real, draw_source Source>
    drawn_children operator()(G const& g, Q const& q, chunk_sums<Real> const& sums, Source& source, draw_site site,
                              span<token_id> out) const {
        drawn_children const drawn = draft::sequential{}(g, q, sums, source, site, out);
        std::sort(out.begin(), out.begin() + drawn.count, [&q](token_id a, token_id b) { return q(a) > q(b); });
        return drawn;
    }
};

}  // namespace multidraft::bugs
