// Bug: stratified drafts verified as independent ones: the certain tokens have ranks, and are tried with p / m.
#pragma once

#include "multidraft/draft/law.hpp"
#include "multidraft/verify/binned_ranked.hpp"

namespace multidraft::bugs {

/// Treats all children as draws from q.
struct certain_with_ratio : verify::node_by_node<certain_with_ratio, law::stratified> {
    static constexpr bool lossless = true;

    template <class G, class P, class Q, class Source>
    verify::node_verdict decide(G const& g, P const& p, Q const& q, span<token_id const> candidates, Source& source,
                                place where) const {
        return verify::binned_ranked<multidraft::law::iid>{}.decide(g, p, q, candidates, source, where);
    }
};

}  // namespace multidraft::bugs
