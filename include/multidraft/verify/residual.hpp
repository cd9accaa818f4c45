// The residual of the target, and the token that is drawn from it in place of a refused one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "multidraft/base/blend.hpp"
#include "multidraft/base/config.hpp"
#include "multidraft/base/fma.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/group/optional_members.hpp"
#include "multidraft/group/runs.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/rows/row_source.hpp"
#include "multidraft/verify/verdict.hpp"

namespace MULTIDRAFT_NAMESPACE::verify {

namespace detail {

/// A function so expensive that functions composed from it always test `may_be_nonzero`: `F::expensive` is true.
template <class F>
concept is_expensive = requires {
    requires F::expensive;
};

/// Which of the two rows of a `residual` its factor belongs to.
enum class factor_of : std::uint8_t { target, draft };

}  // namespace detail

/// (p - c q)+ or (c p - q)+ as a function of the token: a residual, unnormalised and never written out.
///
/// p and q are probabilities of rows and c a scalar. `residual{p, q, c}` is (p - c q)+, that of rejection; with c = 1
/// it is the residual of speculative sampling. `residual_of_path(p, m, w)` is (w p - m)+, that of block verification.
template <distribution P, distribution Q, detail::factor_of Scaled = detail::factor_of::draft>
struct residual {
    using real = probability_of<P>;
    P p;
    Q q;
    real c;

    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD real operator()(index_t i) const {
        if constexpr (Scaled == detail::factor_of::draft)
            return positive_part(fp::fma(-c, static_cast<real>(q(i)), p(i)));
        else
            return positive_part(fp::fma(c, p(i), -static_cast<real>(q(i))));
    }
    /// Where it may be positive: rows truncated by top-k or top-p have few tokens of p. Always tested where q is
    /// expensive.
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD bool may_be_nonzero(index_t i) const
        requires(sparse_distribution<P> || detail::is_expensive<Q>) {
        return may_have_mass(p, i);
    }
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD bool is_dense() const
        requires(sparse_distribution<P> || detail::is_expensive<Q>) {
        if constexpr (detail::is_expensive<Q>)
            return false;
        else
            return p.may_have_all_mass();
    }
    /// Where q equals its simpler form on a whole run (`has_elsewhere`).
    [[nodiscard]] MULTIDRAFT_HD bool is_elsewhere(index_t begin,
                                                  index_t end) const requires multidraft::detail::has_elsewhere<Q> {
        return q.is_elsewhere(begin, end);
    }
    [[nodiscard]] MULTIDRAFT_HD auto elsewhere() const requires multidraft::detail::has_elsewhere<Q> {
        return residual<P, decltype(q.elsewhere()), Scaled>{p, q.elsewhere(), c};
    }
    /// See `has_runs`: exists where p or q has runs. An expensive q is never evaluated on a whole run, and none is on
    /// its empty runs.
    [[nodiscard]] MULTIDRAFT_HD residual in_chunk(index_t begin, index_t end) const
        requires((has_runs<P> || has_runs<Q>)&&!detail::is_expensive<Q>) {
        return {multidraft::detail::in_chunk(p, begin, end), multidraft::detail::in_chunk(q, begin, end), c};
    }
    /// See `has_runs`.
    [[nodiscard]] MULTIDRAFT_HD bool is_empty_run([[maybe_unused]] index_t begin) const
        requires((has_runs<P> || has_runs<Q>)&&!detail::is_expensive<Q>) {
        if constexpr (has_runs<P>)
            return p.is_empty_run(begin);
        else
            return false;
    }
    template <class Body>
    MULTIDRAFT_INLINE MULTIDRAFT_HD void on_run(index_t begin, index_t end, Body const& body) const
        requires((has_runs<P> || has_runs<Q>)&&!detail::is_expensive<Q>) {
        multidraft::detail::on_run(p, begin, end, [&](auto const& p_here) MULTIDRAFT_INLINE_LAMBDA {
            if constexpr (has_runs<Q>) {
                if (q.is_empty_run(begin)) {
                    using nothing = multidraft::detail::probabilities_on_run<constant_run<probability_of<Q>>>;
                    body(residual<std::remove_cvref_t<decltype(p_here)>, nothing, Scaled>{
                        p_here, {{probability_of<Q>(0), q.size()}}, c});
                    return;
                }
            }
            multidraft::detail::on_run(q, begin, end, [&](auto const& q_here) MULTIDRAFT_INLINE_LAMBDA {
                using plain_p = std::remove_cvref_t<decltype(p_here)>;
                using plain_q = std::remove_cvref_t<decltype(q_here)>;
                body(residual<plain_p, plain_q, Scaled>{p_here, q_here, c});
            });
        });
    }
};
template <class P, class Q, class Real>
MULTIDRAFT_GUIDE residual(P, Q, Real)->residual<P, Q>;

/// (w p - m)+, the residual where a path of weight w stops at a node: m is the law of the path's next token.
template <distribution P, distribution M>
[[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE residual<P, M, detail::factor_of::target> residual_of_path(
    P const& p, M const& m, probability_of<P> w) {
    return {p, m, w};
}

/// A token from p, by the chunk sums of its weights. One chunk. `none` when p has no mass (a row of NaN).
template <group G, distribution P, class Sums, draw_source Source>
[[nodiscard]] MULTIDRAFT_HD token_id emit_from_sums(G const& g, P const& p, Sums const& sums, Source& source,
                                                    draw_site site) {
    if (!(sums.total > 0)) return none;
    return source.categorical(g, sums, p.size(), weight_of{p}, {}, site(purpose::residual, 0));
}

/// A token from p. One pass. `none` when p has no mass (a row of NaN).
template <group G, distribution P, draw_source Source>
[[nodiscard]] MULTIDRAFT_HD token_id emit(G const& g, P const& p, Source& source, draw_site site) {
    return emit_from_sums(g, p, g.sum_chunks(p.size(), weight_of{p}), source, site);
}

/// A token from the target's row at a node whose row is not used otherwise.
///
/// Rows that are normalised when read have the chunk sums of their weights at that moment. `target.with_sums(g, node)`
/// returns them with the row, a `processed_row`, and saves the pass of `emit`. One pass or none, and one chunk. `none`
/// when the row has no mass.
template <group G, row_source<G> Target, draw_source Source>
[[nodiscard]] MULTIDRAFT_HD token_id emit_at(G const& g, Target const& target, node_id node, Source& source,
                                             draw_site site) {
    if constexpr (has_with_sums<Target, G>) {
        auto const p = target.with_sums(g, node);
        return emit_from_sums(g, p.row, p.sums, source, site);
    } else {
        return emit(g, target(g, node), source, site);
    }
}

/// A token from p without the rejected candidates, or from p when nothing else has mass.
///
/// For a residual (r - q)+ that vanished by rounding (p equal to q up to rounding), which has probability 0 in exact
/// arithmetic.
template <group G, distribution P, draw_source Source>
[[nodiscard]] MULTIDRAFT_HD token_id emit_undrafted(G const& g, P const& p, span<token_id const> rejected,
                                                    Source& source, draw_site site) {
    weight_of const w{p};
    auto sums = g.sum_chunks(p.size(), w);

    MULTIDRAFT_ROLL
    for (token_id const x : rejected) g.update_chunk(sums, p.size(), w, rejected, x);
    if (!(sums.total > 0)) return emit(g, p, source, site);
    return source.categorical(g, sums, p.size(), w, rejected, site(purpose::residual, 0));
}

/// A token from a residual r of p with the chunk sums `sums`; where it vanished, by `emit_undrafted`. One chunk. `none`
/// when it holds NaN.
template <group G, distribution P, class Residual, class Sums, draw_source Source>
[[nodiscard]] MULTIDRAFT_HD token_id emit_residual(G const& g, P const& p, Residual const& r, Sums const& sums,
                                                   span<token_id const> rejected, Source& source, draw_site site) {
    if (sums.total > 0) return source.categorical(g, sums, p.size(), r, {}, site(purpose::residual, 0));
    if (sums.total != sums.total) return none;
    return emit_undrafted(g, p, rejected, source, site);
}

/// A token from a residual r of p, as `emit_residual`. If it is among the candidates it counts as accepted, except
/// where the residual vanished. One pass and one chunk.
template <group G, distribution P, class Residual, draw_source Source>
[[nodiscard]] MULTIDRAFT_HD node_verdict emit_or_accept(G const& g, P const& p, Residual const& r,
                                                        candidate_list candidates, span<token_id const> rejected,
                                                        Source& source, draw_site site) {
    auto const sums = g.sum_chunks(p.size(), r);
    token_id const x = emit_residual(g, p, r, sums, rejected, source, site);
    return sums.total > 0 ? found_among(candidates, x) : node_verdict{none, x};
}

}  // namespace MULTIDRAFT_NAMESPACE::verify
