// Nested ranked block verification from histograms: a subtree with better draws is selected more often.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/tree/allowed_trees.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/detail/checks.hpp"
#include "multidraft/verify/detail/nested_walk.hpp"
#include "multidraft/verify/detail/ranked_pick.hpp"
#include "multidraft/verify/traits.hpp"
#include "multidraft/verify/verdict.hpp"
#include "multidraft/verify/verifier.hpp"

namespace MULTIDRAFT_NAMESPACE::verify {

/// Nested ranked block verification ([Ranked] 6), from histograms: `ranked_block` where the rank of a draw in its
/// token's set is not a fresh uniform but depends on how good the draws of the token's subtree are. The law of each
/// level stays exact.
///
/// Every node has a quantile in [0, 1] that is uniform a priori. A leaf draws it, as does a node whose children are all
/// certain or which is rarely selected (`least_informative`). For other nodes it is 1 - (1 - r)^j, where r is the best
/// rank among the node's j draws. Given that a node was selected, its quantile has a known law (`nested_node`), and the
/// node's sets are computed for the best of j ranks under that law (`conditional_rank_cdf`). Two draws of one token
/// each have a subtree and a quantile. The selected path is then verified as a block. A child whose token has no mass
/// under the target is treated as a leaf: nothing below it is read.
///
/// Lossless for `law::iid` and `law::stratified`, exactly. The sets of a node are computed only when the selection
/// needs them (`nested_walk`). Cost: one counting pass over p and q for each node whose sets are computed (two in
/// double), then the passes of `stop_of_block`. Runs on every group.
template <draft_law Law>
class nested_ranked_block : public whole_tree<nested_ranked_block<Law>, Law> {
    static_assert(is_ranked_law<Law>,
                  "multidraft: verify::nested_ranked_block is for trees drawn independently, law::iid and "
                  "law::stratified; for law::sequential use verify::traversal; verify::naive<Law> fits every law");

public:
    /// Given its path a subtree is independent of all others, and its quantile is uniform (docs/ranked.md, section 7).
    static constexpr verifier_traits traits{.lossless = true, .shape_may_depend_on = shape_depends_on::own_context};

    /// The sets of one node; for each node its quantile, its conditional distribution function and the numbers of its
    /// law; a step for each level.
    [[nodiscard]] MULTIDRAFT_HD static constexpr std::size_t scratch_bytes(node_id nodes, std::int32_t depth) {
        return detail::nested_memory<double>::bytes(nodes, depth);
    }

    /// The verdict on one tree; see `whole_tree::operator()`, which calls it. Reads rows only of nodes
    /// with children that have positive probability under the target, at most all of these.
    template <group G, class Target, class Draft, draw_source Source>
    MULTIDRAFT_HD verdict decide_tree(G const& g, drafted<Law> const& drafts, Target const& target, Draft const& draft,
                                      Source& source, std::int32_t position, span<node_id> path,
                                      span<std::byte> scratch) const {
        tree_view const tree = drafts.tree;
        using walk_type =
            detail::nested_walk<G, Law, std::decay_t<decltype(target)>, std::decay_t<decltype(draft)>, Source>;
        detail::nested_memory<typename walk_type::real> const memory(scratch.data(), tree.size());
        walk_type walk(g, drafts, target, draft, source, position, memory);
        std::int32_t const levels = walk.pick_path();
        if (levels == none) return {};
        return detail::finish_picked(g, drafts, target, draft, memory.steps, levels, source, position, path);
    }
};

}  // namespace MULTIDRAFT_NAMESPACE::verify
