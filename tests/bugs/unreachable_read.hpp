// Bug: a verifier of whole trees reads the rows below a token that has no mass under the target.
#pragma once

#include <cstddef>
#include <cstdint>

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/traversal.hpp"
#include "multidraft/verify/verdict.hpp"
#include "multidraft/verify/verifier.hpp"

namespace multidraft::bugs {

/// Checks every row before it decides anything. The row after a token that a grammar forbids is not a distribution, but
/// must not matter.
template <draft_law Law>
struct unreachable_read : verify::whole_tree<unreachable_read<Law>, Law> {
    static constexpr multidraft::verify::verifier_traits traits{};
    static std::size_t scratch_bytes(node_id nodes, std::int32_t depth) {
        return verify::traversal<Law>::scratch_bytes(nodes, depth);
    }

    template <class G, class Target, class Draft, class Source>
    verdict decide_tree(G const& g, drafted<Law> const& tree, Target const& target, Draft const& draft, Source& source,
                        std::int32_t position, span<node_id> path, span<std::byte> scratch) const {
        for (node_id v = 0; v < tree.tree.size(); ++v) {
            auto const p = target(g, v);
            if (!tree.tree.children(v).empty() && !(g.sum(p.size(), p) > 0))
                refuse("target", v, "no token", "the row of this node holds no distribution");
        }
        return verify::traversal<Law>{}.decide_tree(g, tree, target, draft, source, position, path, scratch);
    }
};

}  // namespace multidraft::bugs
