// The most likely tokens and one draw from the rest.
#pragma once

#include "multidraft/core/group.hpp"
#include "multidraft/core/span.hpp"
#include "multidraft/distribution/distribution.hpp"
#include "multidraft/draft/law.hpp"
#include "multidraft/draft/sampler.hpp"
#include "multidraft/random/source.hpp"

namespace multidraft::draft {

/// The n - 1 most likely tokens of q, in order, then one draw from the others (Optimal MDSD 5.1, "greedy").
///
/// One pass and a chunk of the row a token. When the support of q is not larger than n it is drawn as a whole.
struct top_then_one {
    using law = multidraft::law::top_then_one;

    template <group G, distribution Q, class Ledger, draw_source Source>
    MULTIDRAFT_HD index_t operator()(G const& g, Q const& q, Ledger& sums, Source& source, place where,
                                     span<token_id> out) const {
        weight_of const w{q};
        if (out.empty() || !(sums.total > 0)) return 0;
        index_t top = 0;
        if (out.size() > 1) {
            g.top(q.size(), w, out.first(out.size() - 1));
            g.barrier();
            for (std::size_t k = 0; k + 1 < out.size(); ++k) top += out[k] != none && q.weight(out[k]) > 0 ? 1 : 0;
        }
        auto const taken = span<token_id const>(out).first(static_cast<std::size_t>(top));
        for (token_id const x : taken) g.reweigh(sums, q.size(), w, taken, x);
        if (!(sums.total > 0)) return top;
        index_t const x = source.pick(g, sums, q.size(), w, taken, where(purpose::draft, top));
        if (x == none) return top;
        out[static_cast<std::size_t>(top)] = x;
        return top + 1;
    }
};

}  // namespace multidraft::draft
