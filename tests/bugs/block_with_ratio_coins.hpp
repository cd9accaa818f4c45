// Bug: block verification stops at a level with probability w, without (w p - q)+.
#pragma once

#include "bugs/block_paths.hpp"
#include "multidraft/verify/verifier.hpp"

namespace multidraft::bugs {

/// The rule of the last level is used at every level.
struct block_with_ratio_coins : verify::whole_tree<block_with_ratio_coins, multidraft::law::iid> {
    static constexpr multidraft::verify::verifier_traits traits{};
    template <class G, class Target, class Draft, class Source>
    verdict decide_tree(G const& g, drafted<law> const& drafts, Target const& target, Draft const& draft,
                        Source& source, std::int32_t position, span<node_id> path) const {
        written_block<G, Target, Draft> const b(g, drafts.tree, target, draft, true);
        std::int32_t level = b.length();
        while (level > 0 &&
               !source.bernoulli(draw_site{position, level}(purpose::acceptance, 0), b.weights[at(level)], 1.0))
            --level;
        return b.stop(level, source, position, path);
    }
};

}  // namespace multidraft::bugs
