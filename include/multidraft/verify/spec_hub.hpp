// SpecHub: two candidates of which one is the most likely token.
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
#include "multidraft/verify/greedy_optimal.hpp"
#include "multidraft/verify/node_by_node.hpp"
#include "multidraft/verify/verdict.hpp"

namespace MULTIDRAFT_NAMESPACE::verify {

/// SpecHub's verification ([OptimalMDSD] 5.3): the optimal one for `law::top_paired`, whose pair is the most likely
/// token and another one.
///
/// Let q~ be q without the most likely token, renormalised. The pair contains another token y with probability q~(y):
/// it came second after the top token, q(top) q~(y), or first, q(y). So the optimal verifier is `greedy_optimal` with n
/// = 2, whose acceptance rate is p(top) + sum min(p, q~). A single candidate is verified by speculative sampling. Which
/// token is the most likely one is what the tree says, its certain child, whatever breaks ties. Lossless for
/// `law::top_paired`; more than two candidates, or a pair without its certain child, are an `invalid_input` on the
/// host.
template <draft_law Law>
class spec_hub : public node_by_node<spec_hub<Law>, Law> {
    static_assert(std::is_same_v<Law, law::top_paired>,
                  "multidraft: verify::spec_hub is for the pairs of SpecHub, law::top_paired; for law::sequential use "
                  "verify::recursive_rejection, for law::top_then_one verify::greedy_optimal");

public:
    static constexpr verifier_traits traits{
        .lossless = true, .trees = allowed_trees::pairs, .draws = allowed_draws::one};

    /// The decision at one node of one or two candidates, in two passes over p and q at most. More are an
    /// `invalid_input` on the host, "no token" elsewhere.
    template <group G, distribution P, distribution Q, draw_source Source>
    [[nodiscard]] MULTIDRAFT_HD node_verdict decide(G const& g, P const& p, Q const& q, candidate_list candidates,
                                                    Source& source, draw_site site) const {
        if (candidates.count() > 2) {
            detail::refuse_on_host<G>("children", site.node, candidates.count(),
                                      "the law of SpecHub, law::top_paired, has two candidates");
            return {};
        }
        if (candidates.count() == 1 && candidates.certain == 0)
            return detail::decide_beside(g, p, q, candidates, 0, {}, source, site);
        if (candidates.count() != 2 || candidates.certain != 1 ||
            !(q.weight(candidates[0]) >= q.weight(candidates[1]))) {
            detail::refuse_on_host<G>("certain", site.node, candidates.certain,
                                      "of a pair of SpecHub the first token is the most likely one, and is certain");
            return {};
        }
        return detail::decide_beside(g, p, q, candidates, 1, candidates.certain_tokens(), source, site);
    }
};

}  // namespace MULTIDRAFT_NAMESPACE::verify
