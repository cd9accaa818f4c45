// Speculative sampling: one candidate against the target.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/tree/allowed_trees.hpp"
#include "multidraft/verify/detail/checks.hpp"
#include "multidraft/verify/node_by_node.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/verdict.hpp"

namespace MULTIDRAFT_NAMESPACE::verify {

/// Accept x with probability min(1, p(x) / q(x)), else emit from Norm[(p - q)+] ([Leviathan23], Chen et al.
/// 2023; [MCSD] 2.2).
///
/// For trees with at most one child per node, that is chains. It is recursive rejection with n = 1, to the bit; the
/// name states the restriction: a node with more children is an `invalid_input` on the host ("no token" on a device).
/// Acceptance rate sum min(p, q).
template <draft_law Law>
class speculative_sampling : public node_by_node<speculative_sampling<Law>, Law> {
    static_assert(std::is_same_v<Law, law::iid> || std::is_same_v<Law, law::sequential>,
                  "multidraft: verify::speculative_sampling divides by the law of the draw and is lossless for a token "
                  "drawn from q "
                  "(law::iid, law::sequential); for other laws, law::deterministic among them, use verify::naive");

public:
    static constexpr verifier_traits traits{.lossless = true, .trees = allowed_trees::chains};

    /// The decision at one node of one candidate, one pass over p and q where it is refused. More are an
    /// `invalid_input` on the host, "no token" elsewhere.
    template <group G, distribution P, distribution Q, draw_source Source>
    [[nodiscard]] MULTIDRAFT_HD node_verdict decide(G const& g, P const& p, Q const& q, span<token_id const> candidates,
                                                    Source& source, draw_site site) const {
        if (candidates.size() > 1) {
            detail::refuse_on_host<G>(
                "children", site.node, candidates.size(),
                "speculative sampling takes one candidate per node; for more use verify::recursive_rejection");
            return {};
        }
        return recursive_rejection<Law>{}.decide(g, p, q, candidates, source, site);
    }
};

}  // namespace MULTIDRAFT_NAMESPACE::verify
