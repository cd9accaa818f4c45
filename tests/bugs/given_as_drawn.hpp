// Bug: children that come from elsewhere, such as a look-up, counted as draws.
#pragma once

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/draft/sampler.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/testing/engine_samplers.hpp"

namespace multidraft::bugs {

/// The tokens are those of an engine that drafts from the text too, but they are not said to be certain.
struct given_as_drawn {
    using law = multidraft::law::stratified;

    template <group G, distribution Q, class Sums, draw_source Source>
    drawn_children operator()(G const& g, Q const& q, Sums const& sums, Source& source, draw_site site,
                              span<token_id> out) const {
        drawn_children const drawn = testing::given_stratified{}(g, q, sums, source, site, out);
        return {drawn.count, 0};
    }
};

}  // namespace multidraft::bugs
