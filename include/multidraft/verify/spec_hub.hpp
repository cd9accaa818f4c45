// SpecHub: two candidates of which one is the most likely token.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <type_traits>

#include "multidraft/core/config.hpp"
#include "multidraft/core/group.hpp"
#include "multidraft/core/span.hpp"
#include "multidraft/distribution/distribution.hpp"
#include "multidraft/draft/law.hpp"
#include "multidraft/random/draw_site.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/verify/candidates.hpp"
#include "multidraft/verify/detail/checks.hpp"
#include "multidraft/verify/greedy_optimal.hpp"
#include "multidraft/verify/node_by_node.hpp"
#include "multidraft/verify/verdict.hpp"

namespace MULTIDRAFT_NAMESPACE::verify {

/// SpecHub's verification ([OptimalMDSD] 5.3): the optimal one for `law::top_paired`, whose pair is the most likely
/// token and another one.
///
/// Let q~ be q without the most likely token, renormalised. The pair, in either order, contains another token y with
/// probability q~(y): it came second after the top token, q(top) q~(y), or first, q(y). So the optimal verifier is
/// `greedy_optimal` with n = 2, whose acceptance rate is p(top) + sum min(p, q~). A single candidate is verified by
/// speculative sampling. Lossless for `law::top_paired`; more than two candidates are an `invalid_input` on the host.
template <draft_law Law>
class spec_hub : public node_by_node<spec_hub<Law>, Law> {
    static_assert(std::is_same_v<Law, law::top_paired>,
                  "multidraft: verify::spec_hub is for the pairs of SpecHub, law::top_paired; for law::sequential use "
                  "verify::recursive_rejection, for law::top_then_one verify::greedy_optimal");

public:
    static constexpr bool lossless = true;

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
        if (candidates.count() == 1) return detail::decide_beside(g, p, q, candidates, 0, {}, source, site);
        // Compared by weights, as in the sampler: probabilities are rounded once more.
        auto const a = q.weight(candidates[0]);
        auto const b = q.weight(candidates[1]);
        index_t const top = b > a || (b == a && candidates[1] < candidates[0]) ? 1 : 0;
        return detail::decide_beside(g, p, q, candidates, 1 - top,
                                     candidates.tokens.subspan(static_cast<std::size_t>(top), 1), source, site);
    }
};

}  // namespace MULTIDRAFT_NAMESPACE::verify
