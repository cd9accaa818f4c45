// Recursive rejection: test the candidates one by one against the residual of the target.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/fma.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/rows/row_source.hpp"
#include "multidraft/tree/allowed_trees.hpp"
#include "multidraft/verify/detail/draft_units.hpp"
#include "multidraft/verify/detail/reject_in_turn.hpp"
#include "multidraft/verify/node_by_node.hpp"
#include "multidraft/verify/residual.hpp"
#include "multidraft/verify/verdict.hpp"

namespace MULTIDRAFT_NAMESPACE::verify {

/// Recursive rejection sampling ([MCSD] Alg. 1 and 2; [RSD] Alg. 1, Theorem 3.1; one draft model of SpecInfer's
/// multi-round).
///
/// r_1 = p; for k = 1..n accept x_k with probability min(1, r_k(x_k) / q_k(x_k)), else r_{k+1} = Norm[(r_k - q_k)+];
/// after the last candidate emit from r_{n+1}. q_k is q for `law::iid`, and q without x_1..x_{k-1}, renormalised, for
/// `law::sequential`.
///
/// The residual needs no storage: r_k = (p - c_k q)+ / Z_k with two scalars, c_{k+1} = c_k + Z_k / s_k and Z_{k+1} =
/// sum (p - c_{k+1} q)+, where s_k is the mass that q has left (1 for iid). A rejected token has r_k < q_k, so its
/// residual is 0 from then on without a test. q is taken in units (`in_units`): s_k may be any positive number. Cost:
/// O(1) per candidate, one pass over p and q per rejection; the token emitted in the end comes from the last pass.
///
/// A user's law that is given by its conditionals (`gives_conditionals`) has q_k = Law::conditional(g, q, x_1 ..
/// x_{k-1}). The residual is then recomputed from the rows of the refused candidates, with one pass over p and all of
/// these rows per rejection. A node has up to 64 children; more are an `invalid_input` on the host, "no token"
/// elsewhere.
///
/// Lossless for `law::iid`, `law::sequential` and laws with conditionals, whatever they depend on. A candidate to which
/// q_k gives no mass cannot have been drawn from it: the verdict is "no token", an `invalid_input` on the host.
template <draft_law Law>
class recursive_rejection : public node_by_node<recursive_rejection<Law>, Law> {
    static constexpr bool by_conditionals = gives_conditionals<Law, host_group, multidraft::detail::row_archetype::row>;
    static_assert(
        std::is_same_v<Law, law::iid> || std::is_same_v<Law, law::sequential> || by_conditionals,
        "multidraft: verify::recursive_rejection divides by the law of the draws and is lossless for law::iid, "
        "law::sequential and laws that have a `conditional` only; for other laws, law::deterministic among them, use "
        "verify::naive");

public:
    /// The limit for laws with conditionals.
    static constexpr std::size_t most_children = 64;
    /// A stopping rule ([RSD], Theorem 3.1).
    static constexpr verifier_traits traits{.lossless = true,
                                            .most_children = by_conditionals ? index_t{most_children} : 0,
                                            .shape_may_depend_on = shape_depends_on::earlier_siblings};

    /// The decision at one node: p and q over one vocabulary, candidates in the order drawn, one pass over both rows
    /// per rejection. No token where q gives a candidate no mass, or a row holds NaN.
    template <group G, distribution P, distribution Q, draw_source Source>
    [[nodiscard]] MULTIDRAFT_HD node_verdict decide(G const& g, P const& p, Q const& draft_row,
                                                    span<token_id const> candidates, Source& source,
                                                    draw_site site) const {
        if constexpr (by_conditionals) {
            detail::conditional_rows<Law, G, Q, most_children> rows(g, draft_row, candidates);
            return detail::reject_in_turn<most_children>(
                g, p, rows, candidates, source, site,
                "recursive rejection of a law with conditionals takes up to 64 candidates");
        } else {
            return decide_by_one_row(g, p, draft_row, candidates, source, site);
        }
    }

private:
    template <group G, distribution P, distribution Q, draw_source Source>
    [[nodiscard]] MULTIDRAFT_HD static node_verdict decide_by_one_row(G const& g, P const& p, Q const& draft_row,
                                                                      span<token_id const> candidates, Source& source,
                                                                      draw_site site) {
        using real = probability_of<P>;
        auto const q = detail::in_units<real>(draft_row);
        index_t const n = p.size();
        real c = 0;  // r_k = (p - c q)+ / z
        real z = 1;
        real left = detail::units_in_1<real>;  // of q's mass, for the candidate about to be tried
        for (std::size_t k = 0; k < candidates.size(); ++k) {
            token_id const x = candidates[k];
            real const qx = q(x);
            if (!(qx > 0 && qx <= largest_number<real>)) return {};
            real const px = fp::fma(-c, qx, p(x));
            real const numerator = (px > 0 ? px : real(0)) * left;
            if (source.bernoulli(site(purpose::acceptance, static_cast<index_t>(k)), numerator, z * qx))
                return {static_cast<index_t>(k), x};
            c += fp::div(z, left);
            residual const r{p, q, c};
            auto const sums = g.sum_chunks(n, r);
            z = sums.total;
            if (!(z > 0) || k + 1 == candidates.size())
                return {none, emit_residual(g, p, r, sums, candidates.first(k + 1), source, site)};
            if constexpr (std::is_same_v<Law, law::sequential>)
                left = detail::mass_left(g, q, candidates.first(k + 1), left - qx);
        }
        return {none, emit(g, p, source, site)};
    }
};

}  // namespace MULTIDRAFT_NAMESPACE::verify
