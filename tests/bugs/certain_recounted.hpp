// Bug: the verifier recounts the certain children from the draft's row and the children in the tree.
#pragma once

#include <cstddef>
#include <cstdint>

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/verify/node_by_node.hpp"
#include "multidraft/verify/ranked.hpp"
#include "multidraft/verify/verdict.hpp"

namespace multidraft::bugs {

/// In exact arithmetic the rule gives the same number for the children requested and for those there are. In floats 1 -
/// q(top) is off by the rounding of q, and certain tokens are treated as draws.
struct certain_recounted : verify::node_by_node<certain_recounted, law::stratified> {
    static constexpr multidraft::verify::verifier_traits traits{.lossless = true};
    using right = verify::ranked<multidraft::law::stratified>;

    static constexpr std::size_t scratch_bytes(node_id nodes, std::int32_t depth) {
        return right::scratch_bytes(nodes, depth);
    }

    template <group G, distribution P, distribution Q, draw_source Source>
    [[nodiscard]] verify::node_verdict decide(G const& g, P const& p, Q const& q, verify::candidate_list candidates,
                                              Source& source, draw_site site, span<std::byte> scratch) const {
        index_t const n = candidates.count();
        double left = 1;
        candidates.certain = 0;
        while (candidates.certain + 1 < n) {
            auto const top = static_cast<double>(q(candidates[candidates.certain]));
            if (!((n - candidates.certain) * top >= 0.7 * left) || !(top > 0)) break;
            left -= top;
            ++candidates.certain;
        }
        return right{}.decide(g, p, q, candidates, source, site, scratch);
    }
};

}  // namespace multidraft::bugs
