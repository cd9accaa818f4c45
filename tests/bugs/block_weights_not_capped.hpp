// Bug: the weights of block verification are products of p/q that are not capped at 1.
#pragma once

#include "bugs/block_paths.hpp"
#include "multidraft/verify/verifier.hpp"

namespace multidraft::bugs {

/// A token with p > q compensates for another one with p < q.
struct block_weights_not_capped : verify::whole_tree<block_weights_not_capped, multidraft::law::iid> {
    static constexpr multidraft::verify::verifier_traits traits{};
    template <class G, class Target, class Draft, class Source>
    verdict decide_tree(G const& g, drafted<law> const& drafts, Target const& target, Draft const& draft,
                        Source& source, std::int32_t position, span<node_id> path) const {
        written_block<G, Target, Draft> const b(g, drafts.tree, target, draft, false);
        std::int32_t level = b.length();
        while (level > 0 && !source.bernoulli(draw_site{position, level}(purpose::acceptance, 0), b.chance(level), 1.0))
            --level;
        return b.stop(level, source, position, path);
    }
};

}  // namespace multidraft::bugs
