// The n most likely tokens: candidates without randomness.
#pragma once

#include "multidraft/core/group.hpp"
#include "multidraft/core/span.hpp"
#include "multidraft/distribution/distribution.hpp"
#include "multidraft/draft/law.hpp"
#include "multidraft/draft/sampler.hpp"
#include "multidraft/random/source.hpp"

namespace multidraft::draft {

/// The n largest weights of q, largest first, ties to the lower token; tokens of no weight are left out.
///
/// Law: `deterministic`, for which only verifiers that never divide by q are lossless (`verify::naive`). One pass.
struct top_n {
    using law = multidraft::law::deterministic;

    template <group G, distribution Q, class Ledger, draw_source Source>
    MULTIDRAFT_HD index_t operator()(G const& g, Q const& q, Ledger& /*sums*/, Source& /*source*/, place /*where*/,
                                     span<token_id> out) const {
        g.top(q.size(), weight_of{q}, out);
        index_t drawn = 0;
        for (token_id const x : out) drawn += x != none && q.weight(x) > 0 ? 1 : 0;
        return drawn;
    }
};

}  // namespace multidraft::draft
