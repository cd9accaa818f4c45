// The n most likely tokens: candidates without randomness.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "multidraft/base/numbers.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/draft/sampler.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/distribution.hpp"

namespace MULTIDRAFT_NAMESPACE::draft {

/// The n most likely tokens in the order of the row (`order_of`), as [EAGLE-2]; ties to the lower token. Tokens that
/// are truncated or have no mass at any temperature are left out. At temperature 0 they are the same as at any other.
///
/// Law: `deterministic`, for which only verifiers that never divide by q are lossless (`verify::naive`). One pass.
struct top_n {
    using law = multidraft::law::deterministic;

    template <group G, distribution Q, class Sums, draw_source Source>
    MULTIDRAFT_HD drawn_children operator()(G const& g, Q const& q, Sums const& /*sums*/, Source& /*source*/,
                                            draw_site /*site*/, span<token_id> out) const {
        order_of const order{q};
        auto const most = static_cast<std::size_t>(ordered_tokens(q, static_cast<index_t>(out.size())));
        g.top_k(q.size(), order, out.first(most));
        index_t drawn = 0;
        for (std::size_t k = 0; k < most; ++k)
            drawn += out[k] != none && order(out[k]) > minus_infinity<probability_of<Q>> ? 1 : 0;
        return {drawn};
    }
};

}  // namespace MULTIDRAFT_NAMESPACE::draft
