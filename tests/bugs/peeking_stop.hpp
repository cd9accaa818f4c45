// Bug: an early stop that depends on the token it stops before.
#pragma once

#include <cstddef>

#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sampler.hpp"
#include "multidraft/draft/sequential.hpp"

namespace multidraft::bugs {

/// Children are drawn until one is unlikely, and that one is dropped from the tree. The candidates then no longer have
/// the law of the draws. (A stop that depends on earlier tokens is lossless.)
struct peeking_stop {
    using law = multidraft::law::sequential;

    template <group G, distribution Q, class Real, draw_source Source>
    drawn_children operator()(G const& g, Q const& q, chunk_sums<Real> const& sums, Source& source, draw_site site,
                              span<token_id> out) const {
        drawn_children const drawn = draft::sequential{}(g, q, sums, source, site, out);
        for (index_t k = 0; k < drawn.count; ++k)
            if (q(out[static_cast<std::size_t>(k)]) < Real(0.25)) return {k};
        return drawn;
    }
};

}  // namespace multidraft::bugs
