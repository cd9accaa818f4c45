// Bug: stratified drafts verified as independent ones: the certain tokens have ranks, and are tried with p / m.
#pragma once

#include "multidraft/law/law.hpp"
#include "multidraft/verify/ranked.hpp"

namespace multidraft::bugs {

/// Treats all children as draws from q.
struct certain_with_ratio : verify::node_by_node<certain_with_ratio, law::stratified> {
    static constexpr multidraft::verify::verifier_traits traits{.lossless = true};

    static constexpr std::size_t scratch_bytes(node_id nodes, std::int32_t depth) {
        return verify::ranked<multidraft::law::iid>::scratch_bytes(nodes, depth);
    }

    template <class G, class P, class Q, class Source>
    verify::node_verdict decide(G const& g, P const& p, Q const& q, verify::candidate_list candidates, Source& source,
                                draw_site site, span<std::byte> scratch) const {
        candidates.certain = 0;
        return verify::ranked<multidraft::law::iid>{}.decide(g, p, q, candidates, source, site, scratch);
    }
};

}  // namespace multidraft::bugs
