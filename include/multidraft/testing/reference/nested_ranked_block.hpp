// Nested ranked block verification: a subtree that turned out well is picked more often.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "multidraft/core/config.hpp"
#include "multidraft/draft/law.hpp"
#include "multidraft/testing/reference/ranked_block.hpp"

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
class nested_ranked_block : public detail::ranked_walk_verifier<Law, true> {
    using base = detail::ranked_walk_verifier<Law, true>;

public:
    using base::base;
};

}  // namespace MULTIDRAFT_NAMESPACE::testing::reference
