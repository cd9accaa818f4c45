// Bug: a confidence that reads the drawn token decides whether that token is kept.
#pragma once

#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sampler.hpp"

namespace multidraft::bugs {

/// One draw, kept where the draft is confident in it: here, where it is token 0. The candidates then have another law
/// than the draws: [DSpark]'s own counter-example. (A confidence in the row, before the draw, is lossless.)
struct kept_if_confident {
    using law = multidraft::law::iid;

    template <group G, distribution Q, class Real, draw_source Source>
    drawn_children operator()(G const& g, Q const& q, chunk_sums<Real> const& sums, Source& source, draw_site site,
                              span<token_id> out) const {
        drawn_children const drawn = draft::iid{}(g, q, sums, source, site, out);
        for (index_t k = 0; k < drawn.count; ++k)
            if (out[k] != 0) return {k};
        return drawn;
    }
};

}  // namespace multidraft::bugs
