// Bug: the levels of block verification are tried from the root down, not from the last one up.
#pragma once

#include "bugs/block_paths.hpp"
#include "multidraft/verify/verifier.hpp"

namespace multidraft::bugs {

/// The path grows while draws succeed, as in token by token verification; the probabilities are those of a path that
/// was rejected below.
struct block_from_the_root : verify::whole_tree<block_from_the_root, multidraft::law::iid> {
    static constexpr multidraft::verify::verifier_traits traits{};
    template <class G, class Target, class Draft, class Source>
    verdict decide_tree(G const& g, drafted<law> const& drafts, Target const& target, Draft const& draft,
                        Source& source, std::int32_t position, span<node_id> path) const {
        written_block<G, Target, Draft> const b(g, drafts.tree, target, draft, true);
        std::int32_t level = 0;
        while (level < b.length() &&
               source.bernoulli(draw_site{position, level + 1}(purpose::acceptance, 0), b.chance(level + 1), 1.0))
            ++level;
        return b.stop(level, source, position, path);
    }
};

}  // namespace multidraft::bugs
