// The residual of the target, from which a token is drawn in place of a refused one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/fma.hpp"
#include "multidraft/base/positive_part.hpp"
#include "multidraft/group/optional_members.hpp"
#include "multidraft/group/runs.hpp"
#include "multidraft/rows/distribution.hpp"

namespace MULTIDRAFT_NAMESPACE::verify {

/// Which of the two rows of a `residual` its factor belongs to.
enum class factor_of : std::uint8_t { target, draft };

/// (p - c q)+ or (c p - q)+ as a function of the token: a residual, unnormalised and never written out.
///
/// p and q are probabilities of rows and c a scalar. `residual{p, q, c}` is (p - c q)+, that of rejection; with c = 1
/// it is the residual of speculative sampling. `residual_of_path(p, m, w)` is (w p - m)+, that of block verification.
template <distribution P, distribution Q, factor_of Scaled = factor_of::draft>
struct residual {
    using real = probability_of<P>;
    P p;
    Q q;
    real c;

    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD real operator()(index_t i) const {
        if constexpr (Scaled == factor_of::draft)
            return positive_part(fp::fma(-c, static_cast<real>(q(i)), p(i)));
        else
            return positive_part(fp::fma(c, p(i), -static_cast<real>(q(i))));
    }
    /// Where it may be positive: rows truncated by top-k or top-p have few tokens of p. Always tested where q is
    /// expensive.
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD bool may_be_nonzero(index_t i) const
        requires(sparse_distribution<P> || is_expensive<Q>) {
        return may_have_mass(p, i);
    }
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD bool is_dense() const requires sparse_distribution<P> {
        if constexpr (is_expensive<Q>)
            return false;
        else
            return p.may_have_all_mass();
    }
    /// Where q equals its simpler form on a whole run (`has_elsewhere`).
    [[nodiscard]] MULTIDRAFT_HD bool is_elsewhere(index_t begin, index_t end) const requires has_elsewhere<Q> {
        return q.is_elsewhere(begin, end);
    }
    [[nodiscard]] MULTIDRAFT_HD auto elsewhere() const requires has_elsewhere<Q> {
        return residual<P, decltype(q.elsewhere()), Scaled>{p, q.elsewhere(), c};
    }
    /// See `has_runs`: exists where p or q has runs. An expensive q is never evaluated on a whole run.
    [[nodiscard]] MULTIDRAFT_HD residual in_chunk(index_t begin, index_t end) const
        requires((has_runs<P> || has_runs<Q>)&&!is_expensive<Q>) {
        return {multidraft::detail::in_chunk(p, begin, end), multidraft::detail::in_chunk(q, begin, end), c};
    }
    /// See `has_empty_runs`.
    [[nodiscard]] MULTIDRAFT_HD bool is_empty_run(index_t begin) const requires(has_empty_runs<P> && !is_expensive<Q>) {
        return p.is_empty_run(begin);
    }
    template <class Body>
    MULTIDRAFT_INLINE MULTIDRAFT_HD void on_run(index_t begin, index_t end, Body const& body) const
        requires((has_runs<P> || has_runs<Q>)&&!is_expensive<Q>) {
        multidraft::detail::on_run(p, begin, end, [&](auto const& p_here) MULTIDRAFT_INLINE_LAMBDA {
            multidraft::detail::on_run(q, begin, end, [&](auto const& q_here) MULTIDRAFT_INLINE_LAMBDA {
                using plain_p = std::remove_cvref_t<decltype(p_here)>;
                using plain_q = std::remove_cvref_t<decltype(q_here)>;
                body(residual<plain_p, plain_q, Scaled>{p_here, q_here, c});
            });
        });
    }
};
template <class P, class Q, class Real>
residual(P, Q, Real) -> residual<P, Q>;

/// (w p - m)+, the residual where a path of weight w stops at a node: m is the law of the path's next token.
template <distribution P, distribution M>
[[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE residual<P, M, factor_of::target> residual_of_path(P const& p, M const& m,
                                                                                                 probability_of<P> w) {
    return {p, m, w};
}

}  // namespace MULTIDRAFT_NAMESPACE::verify
