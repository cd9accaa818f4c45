// Greedy-optimal verification: the most likely tokens are reached through the residual of the one that was drawn.
#pragma once

#include <cstddef>
#include <type_traits>

#include "multidraft/core/config.hpp"
#include "multidraft/core/fma.hpp"
#include "multidraft/core/group.hpp"
#include "multidraft/core/numbers.hpp"
#include "multidraft/core/span.hpp"
#include "multidraft/distribution/distribution.hpp"
#include "multidraft/draft/law.hpp"
#include "multidraft/random/place.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/verify/emit.hpp"
#include "multidraft/verify/node_by_node.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/verdict.hpp"

namespace multidraft::verify {

namespace detail {

/// (p - q / left)+, and p on the certain tokens.
template <distribution P, distribution Q>
struct residual_beside {
    using real = probability_of<P>;
    P p;
    Q q;
    span<token_id const> certain;
    real share;  ///< 1 / (q's mass outside the certain tokens)

    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD real operator()(index_t i) const {
        real const px = p(i);
        real drawn = static_cast<real>(q(i));
        for (token_id const x : certain) drawn = x == i ? real(0) : drawn;
        real const left = fused(-share, drawn, px);
        return left < 0 ? real(0) : left;  // NaN stays, and is found in the sum
    }
};

/// Decides between tokens that were certain and one that was drawn from the rest of q: `drawn` is its place among the
/// candidates, `certain` the others.
template <group G, distribution P, distribution Q, draw_source Source>
[[nodiscard]] MULTIDRAFT_HD node_verdict decide_beside(G const& g, P const& p, Q const& q,
                                                       span<token_id const> candidates, index_t drawn,
                                                       span<token_id const> certain, Source& source, place where) {
    using real = probability_of<P>;
    token_id const x = candidates[static_cast<std::size_t>(drawn)];
    real const qx = q(x);
    if (!(qx > 0 && qx <= largest_number<real>)) return {};
    real difference = 1;
    for (token_id const t : certain) difference -= static_cast<real>(q(t));
    real const left = certain.empty() ? real(1) : mass_left(g, q, certain, difference);
    if (!(left > 0)) return {};
    if (source.coin(where(purpose::acceptance, 0), product(p(x), left), qx)) return {drawn, x};
    residual_beside<P, Q> const r{p, q, certain, quotient(real(1), left)};
    auto const sums = g.weigh(p.size(), r);
    if (!(sums.total > 0)) {
        if (sums.total != sums.total) return {};
        return {none, emit_undrafted(g, p, candidates, source, where)};
    }
    token_id const y = source.pick(g, sums, p.size(), r, {}, where(purpose::residual, 0));
    for (std::size_t k = 0; k < candidates.size(); ++k)
        if (candidates[k] == y) return {static_cast<index_t>(k), y};
    return {none, y};
}

}  // namespace detail

/// Greedy-optimal verification (Optimal MDSD 5.1, Theorem 7): speculative sampling of the last candidate against (p,
/// q~), q~ being q outside the n - 1 most likely tokens, renormalised; those are reached through the residual (p - q~)+
/// and count as accepted.
///
/// Lossless for `law::top_then_one`, and optimal: acceptance rate p(top) + sum min(p, q~) = alpha*. Cost: O(n), and one
/// pass over p and q when the drawn candidate is refused.
template <draft_law Law>
class greedy_optimal : public node_by_node<greedy_optimal<Law>, Law> {
    static_assert(
        std::is_same_v<Law, law::top_then_one>,
        "multidraft: verify::greedy_optimal is for the most likely tokens and one draw, law::top_then_one; for "
        "law::deterministic, which has no draw, use verify::naive, for law::stratified verify::ranked");

public:
    static constexpr bool lossless = true;

    template <group G, distribution P, distribution Q, draw_source Source>
    [[nodiscard]] MULTIDRAFT_HD node_verdict decide(G const& g, P const& p, Q const& q, span<token_id const> candidates,
                                                    Source& source, place where) const {
        auto const last = candidates.size() - 1;
        return detail::decide_beside(g, p, q, candidates, static_cast<index_t>(last), candidates.first(last), source,
                                     where);
    }
};

}  // namespace multidraft::verify
