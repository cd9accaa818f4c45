// Greedy-optimal verification: the most likely tokens are reached through the residual of the one that was drawn.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/fma.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/tree/allowed_trees.hpp"
#include "multidraft/verify/detail/checks.hpp"
#include "multidraft/verify/detail/draft_units.hpp"
#include "multidraft/verify/node_by_node.hpp"
#include "multidraft/verify/residual.hpp"
#include "multidraft/verify/verdict.hpp"

namespace MULTIDRAFT_NAMESPACE::verify {

namespace detail {

/// (p - q / left)+, and p on the certain tokens.
template <distribution P, distribution Q>
struct residual_beside {
    using real = probability_of<P>;
    detail::certain_tokens<Q> certain;
    P p;
    real share;  ///< 1 / (q's mass outside the certain tokens)

    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD real operator()(index_t i) const {
        return certain.holds(i) ? p(i) : elsewhere()(i);
    }
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD bool is_elsewhere(index_t begin, index_t end) const {
        return !certain.any_in(begin, end);
    }
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD residual<P, Q> elsewhere() const { return {p, certain.q, share}; }
};

/// Decides between the certain tokens and one drawn from the rest of q, which is the child `drawn`.
template <group G, distribution P, distribution Q, draw_source Source>
[[nodiscard]] MULTIDRAFT_HD node_verdict decide_beside(G const& g, P const& p, Q const& draft_row,
                                                       candidate_list candidates, index_t drawn,
                                                       span<token_id const> certain, Source& source, draw_site site) {
    using real = probability_of<P>;
    auto const q = detail::in_units<real>(draft_row);
    token_id const x = candidates[drawn];
    real const qx = q(x);
    if (!(qx > 0 && qx <= largest_number<real>)) return {};
    real difference = detail::units_in_1<real>;
    for (token_id const t : certain) difference -= q(t);
    real const left = certain.empty() ? detail::units_in_1<real> : mass_left(g, q, certain, difference);
    if (!(left > 0)) return {};
    if (source.bernoulli(site(purpose::acceptance, 0), fp::mul(p(x), left), qx)) return {drawn, x};
    residual_beside<P, detail::in_units_of<Q, real>> const r{{q, certain}, p, fp::div(real(1), left)};
    return emit_or_accept(g, p, r, candidates, candidates, source, site);
}

}  // namespace detail

/// Greedy-optimal verification ([OptimalMDSD] 5.1, Theorem 7): speculative sampling of the last candidate with (p, q~),
/// where q~ is q without the n - 1 certain tokens, renormalised. The certain tokens are emitted from the residual (p -
/// q~)+ and count as accepted.
///
/// Lossless for `law::top_then_one`, and optimal: acceptance rate p(certain) + sum min(p, q~) = alpha*. Where every
/// candidate is certain, a token is drawn from p. Cost: O(n), and one pass over p and q when the drawn candidate is
/// refused. A node of more than one draw is an `invalid_input` on the host.
template <draft_law Law>
class greedy_optimal : public node_by_node<greedy_optimal<Law>, Law> {
    static_assert(
        std::is_same_v<Law, law::top_then_one>,
        "multidraft: verify::greedy_optimal is for the most likely tokens and one draw, law::top_then_one; for "
        "law::deterministic, which has no draw, use verify::naive, for law::stratified verify::ranked");

public:
    static constexpr verifier_traits traits{.lossless = true, .draws = allowed_draws::at_most_one};

    /// The decision at one node, in two passes over p and q at most. More than one draw is an `invalid_input` on the
    /// host, "no token" elsewhere; so is a drawn token to which q gives no mass.
    template <group G, distribution P, distribution Q, draw_source Source>
    [[nodiscard]] MULTIDRAFT_HD node_verdict decide(G const& g, P const& p, Q const& q, candidate_list candidates,
                                                    Source& source, draw_site site) const {
        if (candidates.draws() > 1) {
            detail::refuse_on_host<G>("certain", site.node, candidates.certain,
                                      "law::top_then_one draws one of a node's children, all others are certain");
            return {};
        }
        if (candidates.draws() == 0) return found_among(candidates, emit(g, p, source, site));
        return detail::decide_beside(g, p, q, candidates, candidates.certain, candidates.certain_tokens(), source,
                                     site);
    }
};

}  // namespace MULTIDRAFT_NAMESPACE::verify
