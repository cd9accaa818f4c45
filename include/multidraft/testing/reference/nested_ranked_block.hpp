// Nested ranked block verification: a subtree that turned out well is picked more often.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "multidraft/core/config.hpp"
#include "multidraft/core/group.hpp"
#include "multidraft/core/span.hpp"
#include "multidraft/draft/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/testing/reference/ranked_block.hpp"
#include "multidraft/verify/verdict.hpp"

namespace MULTIDRAFT_NAMESPACE::testing::reference {

/// The reference of `verify::nested_ranked_block` ([Ranked] 6): `ranked_block` where the rank of a draw in its token's
/// set is not a fresh uniform but says how well the token's own subtree turned out, while the law of each level stays
/// exact.
///
/// Every node has a quantile in [0, 1], uniform before anything is known: a leaf draws it; an inner node's is 1 - (1 -
/// r)^j, r the best rank among its j draws; the rank of a draw is the point at its quantile along its token's set.
/// Given that a node was picked its quantile has a known law, its `conditional_cdf`, and the node's
/// sets are made for the best of j ranks under that law. Two draws of one token have a subtree and a quantile each.
/// Sets from the root down, quantiles from the leaves up, the picked path from the root down, then block verification
/// of the path.
///
/// Lossless for `law::iid` and `law::stratified`. On small trees it accepts 97 to 100 % of what any lossless verifier
/// of its drafts can. Reads the rows of all nodes with children. On the host, exactly: see `ranked_node` for cost and
/// memory.
template <draft_law Law>
class nested_ranked_block {
    static_assert(verify::is_ranked_law<Law>,
                  "multidraft: verify::nested_ranked_block is for trees drawn independently, law::iid and "
                  "law::stratified; for law::sequential use verify::traversal; verify::naive<Law> fits every law");

public:
    using law = Law;
    static constexpr bool lossless = true;

    nested_ranked_block() = default;
    /// `pooled`: see `ranked`.
    explicit nested_ranked_block(double pooled) noexcept : pooled_(pooled) {}

    /// Verifies one tree; see `node_by_node::operator()` for the arguments and the errors.
    template <group G, draft_law Drawn, row_source<G> Target, row_source<G> Draft, draw_source Source>
    verdict operator()(G const& g, drafted<Drawn> const& tree, Target const& target_rows, Draft const& draft_rows,
                       Source& source, std::int32_t position, span<node_id> path) const {
        static_assert(std::is_same_v<Drawn, Law>,
                      "multidraft: the tree was drawn by another law than this verifier is for: name the tree's law in "
                      "the verifier, such as testing::reference::nested_ranked_block<law::stratified>");
        auto const& target = verify::named<G>(target_rows, "target");
        auto const& draft = verify::named<G>(draft_rows, "draft");
        return detail::ranked_walk<Law, true, G, std::decay_t<decltype(target)>, std::decay_t<decltype(draft)>, Source>(
                   g, tree, target, draft, source, position, pooled_)
            .run(path);
    }

private:
    double pooled_ = 0x1p-26;
};

}  // namespace MULTIDRAFT_NAMESPACE::testing::reference
