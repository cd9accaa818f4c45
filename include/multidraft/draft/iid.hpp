// Independent draws from q.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "multidraft/base/span.hpp"
#include "multidraft/draft/sampler.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/distribution.hpp"

namespace MULTIDRAFT_NAMESPACE::draft {

/// Draws n tokens independently from q, duplicates kept ([MCSD] 3.1).
///
/// Cost of each token: one search among the chunk sums and one chunk of the row, independent of V.
struct iid {
    using law = multidraft::law::iid;

    template <group G, distribution Q, class Sums, draw_source Source>
    MULTIDRAFT_HD drawn_children operator()(G const& g, Q const& q, Sums const& sums, Source& source, draw_site site,
                                            span<token_id> out) const {
        weight_of const w{q};
        if (!can_draw(sums)) return {};
        for (std::size_t k = 0; k < out.size(); ++k) {
            index_t const x =
                source.categorical(g, sums, q.size(), w, {}, site(purpose::draft, static_cast<index_t>(k)));
            if (x == none) return {static_cast<index_t>(k)};
            out[k] = x;
        }
        return {static_cast<index_t>(out.size())};
    }
};

}  // namespace MULTIDRAFT_NAMESPACE::draft
