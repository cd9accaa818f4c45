// K-SEQ: independent candidates in turn, each against the target divided by the same factor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <type_traits>

#include "multidraft/base/blend.hpp"
#include "multidraft/base/config.hpp"
#include "multidraft/base/fma.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/verify/detail/decreasing_root.hpp"
#include "multidraft/verify/node_by_node.hpp"
#include "multidraft/verify/residual.hpp"
#include "multidraft/verify/verdict.hpp"

namespace MULTIDRAFT_NAMESPACE::verify {

namespace detail {

/// min(p / rho, q) as a function of the token.
template <distribution P, distribution Q>
struct k_seq_overlap {
    using real = probability_of<P>;
    P p;
    Q q;
    real share;  ///< 1 / rho

    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD real operator()(index_t i) const {
        real const a = fp::mul(share, p(i));
        real const b = static_cast<real>(q(i));
        return b < a ? b : a;
    }
};

/// (p - gamma min(p / rho, q))+.
template <distribution P, distribution Q>
struct k_seq_residual {
    using real = probability_of<P>;
    k_seq_overlap<P, Q> overlap;
    real gamma;

    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD real operator()(index_t i) const {
        return positive_part(fp::fma(-gamma, overlap(i), overlap.p(i)));
    }
};

/// (1 - (1 - b)^n) / b = sum over k < n of (1 - b)^k: exact for small b too.
template <class Real>
[[nodiscard]] MULTIDRAFT_HD Real tries(Real b, std::size_t n) {
    Real sum = 0;
    for (std::size_t k = 0; k < n; ++k) sum = fp::fma(sum, Real(1) - b, Real(1));
    return sum;
}

}  // namespace detail

/// K-SEQ ([SpecTr], Algorithm 2): accept each of n independent candidates in turn with min(1, p(x) / (rho q(x))), else
/// emit from Norm[p - gamma min(p / rho, q)], with beta(rho) = sum min(p / rho, q) and gamma = (1 - (1 - beta)^n) /
/// beta.
///
/// rho in [1, n] solves gamma = rho; any larger rho is lossless too. The one found has gamma / rho within 1.1e-6 of 1.
/// The difference is the fraction of p that a refused candidate's token keeps in the residual; emitting it does not
/// count as accepted. Acceptance rate 1 - (1 - beta)^n, at least 1 - 1/e of alpha* (`analysis::acceptance_k_seq`).
/// Cost: a pass over p and q for each iteration of the root search, and one more when every candidate is refused.
template <draft_law Law>
class k_seq : public node_by_node<k_seq<Law>, Law> {
    static_assert(std::is_same_v<Law, law::iid>,
                  "multidraft: verify::k_seq counts on independent candidates and is lossless for law::iid; for "
                  "law::sequential use verify::recursive_rejection; verify::naive<Law> fits every law");

public:
    static constexpr verifier_traits traits{.lossless = true};

    /// The decision at one node: rho by passes over p and q, then one Bernoulli draw per candidate. No token where q
    /// gives a candidate no mass or a row holds NaN.
    template <group G, distribution P, distribution Q, draw_source Source>
    [[nodiscard]] MULTIDRAFT_HD node_verdict decide(G const& g, P const& p, Q const& q, span<token_id const> candidates,
                                                    Source& source, draw_site site) const {
        using real = probability_of<P>;
        std::size_t const n = candidates.size();
        for (token_id const x : candidates)
            if (!(q(x) > 0 && q(x) <= largest_number<real>)) return {};
        index_t const size = p.size();
        real rho = 1;
        real gamma = 1;
        if (n > 1) {
            auto const gamma_at = [&](real r) {
                return detail::tries(g.sum(size, detail::k_seq_overlap<P, Q>{p, q, fp::div(real(1), r)}), n);
            };
            gamma = gamma_at(real(1));
            if (!(gamma > real(0.5))) return {};  // NaN in a row
            // gamma / rho decreases in rho, from above 1 at rho = 1 (unless p is q) to below 1 at rho = n.
            if (gamma > 1) {
                auto const excess = [&](double t) {
                    rho = static_cast<real>(t);
                    gamma = gamma_at(rho);
                    return static_cast<double>(gamma) / static_cast<double>(rho) - (1 - wanted);
                };
                double const first = static_cast<double>(gamma) - (1 - wanted);
                auto const most = static_cast<double>(n);
                double const last = excess(most);
                double const root = detail::decreasing_root(excess, 1, first, most, last, slack);
                if (rho != static_cast<real>(root)) static_cast<void>(excess(root));
                gamma = gamma < rho ? gamma : rho;
            }
        }
        detail::k_seq_overlap<P, Q> const overlap{p, q, fp::div(real(1), rho)};
        for (std::size_t k = 0; k < n; ++k) {
            token_id const x = candidates[k];
            if (source.bernoulli(site(purpose::acceptance, static_cast<index_t>(k)), overlap(x), q(x)))
                return {static_cast<index_t>(k), x};
        }
        detail::k_seq_residual<P, Q> const r{overlap, gamma};
        return {none, emit_residual(g, p, r, g.sum_chunks(size, r), candidates, source, site)};
    }

private:
    // The search aims at 1 - gamma / rho = `wanted` within `slack`: far enough above the rounding of a row of floats
    // that the search ends and rho is never too small.
    static constexpr double wanted = 6e-7;
    static constexpr double slack = 5e-7;
};

}  // namespace MULTIDRAFT_NAMESPACE::verify
