// Nested ranked block verification: a subtree with better draws is selected more often.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "multidraft/base/config.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/testing/exact_law.hpp"
#include "multidraft/testing/small_models.hpp"
#include "multidraft/testing/small_step.hpp"
#include "reference/exact_ranked_law.hpp"
#include "reference/ranked_block.hpp"

namespace MULTIDRAFT_NAMESPACE::testing::reference {

/// The reference of `verify::nested_ranked_block` ([Ranked] 6): `ranked_block` where the rank of a draw in its token's
/// set is not a fresh uniform but depends on how good the draws of the token's subtree are. The law of each level stays
/// exact.
///
/// Every node has a quantile in [0, 1] that is uniform a priori: a leaf draws it; an inner node's is 1 - (1 - r)^j,
/// where r is the best rank among its j draws. The rank of a draw is the point at its quantile along its token's set.
/// Given that a node was selected its quantile has a known law, its `conditional_cdf`, and the node's sets are computed
/// for the best of j ranks under that law. Two draws of one token each have a subtree and a quantile. Sets are computed
/// from the root down, quantiles from the leaves up, and the selected path from the root down, followed by block
/// verification of the path.
///
/// Lossless for `law::iid` and `law::stratified`. Reads the rows of all nodes with children. On the host, exact: see
/// `ranked_node` for cost and memory.
template <draft_law Law>
class nested_ranked_block : public detail::ranked_walk_verifier<Law, true> {
    using base = detail::ranked_walk_verifier<Law, true>;

public:
    using base::base;

    /// For `prove_lossless`: quantiles cannot be enumerated, so they are integrated out.
    template <class Sampler>
    [[nodiscard]] output_law law_of_step(Sampler const& sampler, shape const& children, model_pair const& models,
                                         shape_rule const& rule) const {
        return law_of_ranked_step<true>(sampler, children, models, rule);
    }
};

}  // namespace MULTIDRAFT_NAMESPACE::testing::reference
