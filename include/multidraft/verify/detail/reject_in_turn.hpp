// Recursive rejection of candidates each drawn from its own row: the residual of the target is recomputed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

#include "multidraft/base/blend.hpp"
#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/fma.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/verify/residual.hpp"
#include "multidraft/verify/verdict.hpp"

namespace MULTIDRAFT_NAMESPACE::verify::detail {

/// ((p - z_1 q_1)+ - z_2 q_2)+ ..: the residual of the target after some refusals, unnormalised.
template <distribution P, class Rows>
struct residual_of_rows {
    using real = probability_of<P>;
    P p;
    Rows const* rows;
    real const* scale;
    index_t refused;

    [[nodiscard]] MULTIDRAFT_HD real operator()(index_t i) const {
        real left = p(i);
        for (index_t k = 0; k < refused; ++k)
            left = positive_part(fp::fma(-scale[k], static_cast<real>(rows->of_child(k)(i)), left));
        return left;
    }
};

/// The rows that the candidates of a law with conditionals were drawn from, made one after another.
template <class Law, class G, distribution Q, std::size_t Most>
class conditional_rows {
public:
    using row = std::decay_t<decltype(Law::conditional(std::declval<G const&>(), std::declval<Q const&>(),
                                                       std::declval<span<token_id const>>()))>;
    static_assert(distribution<row>, "multidraft: Law::conditional(g, q, drawn) is a distribution");
    static_assert(std::is_trivially_copyable_v<row> && std::is_trivially_destructible_v<row>,
                  "multidraft: Law::conditional(g, q, drawn) gives a row of views and numbers, trivially copyable");

    MULTIDRAFT_HD conditional_rows(G const& g, Q const& q, span<token_id const> candidates)
        : g_(g), q_(q), candidates_(candidates) {}
    conditional_rows(conditional_rows const&) = delete;
    conditional_rows& operator=(conditional_rows const&) = delete;

    /// Makes the row of candidate k, by all lanes together, after those before it.
    MULTIDRAFT_HD void reach(index_t k) {
        ::new (static_cast<void*>(room_ + sizeof(row) * static_cast<std::size_t>(k)))
            row(Law::conditional(g_, q_, candidates_.first(static_cast<std::size_t>(k))));
    }
    /// The row of a candidate for which `reach` was called.
    [[nodiscard]] MULTIDRAFT_HD row const& of_child(index_t k) const {
        return *std::launder(reinterpret_cast<row const*>(room_ + sizeof(row) * static_cast<std::size_t>(k)));
    }

private:
    G const& g_;
    Q const& q_;
    span<token_id const> candidates_;
    alignas(row) unsigned char room_[sizeof(row) * Most];
};

template <class Rows>
concept made_one_by_one = requires(Rows& rows, index_t k) {
    rows.reach(k);
};

/// r_1 = p; for k = 1..n accepts x_k with min(1, r_k(x_k) / q_k(x_k)), else r_{k+1} = Norm[(r_k - q_k)+]; after the
/// last one emits from the residual ([RSD] Alg. 1; [SpecInfer], Algorithm 2). `rows.of_child(k)` is q_k.
///
/// One pass over p and the rows of the refused candidates per rejection. No token where a row gives its candidate no
/// mass, nor for more than `Most` candidates, which the host refuses with the message `too_many`.
template <std::size_t Most, group G, distribution P, class Rows, draw_source Source>
[[nodiscard]] MULTIDRAFT_HD node_verdict reject_in_turn(G const& g, P const& p, Rows& rows,
                                                        span<token_id const> candidates, Source& source, draw_site site,
                                                        [[maybe_unused]] char const* too_many) {
    using real = probability_of<P>;
    if (candidates.size() > Most) {
#if !MULTIDRAFT_ON_DEVICE
        if constexpr (G::throws) refuse("children", site.node, candidates.size(), too_many);
#endif
        return {};
    }
    real scale[Most];
    real mass = 1;
    for (std::size_t k = 0; k < candidates.size(); ++k) {
        token_id const x = candidates[k];
        auto const refused = static_cast<index_t>(k);
        if constexpr (made_one_by_one<Rows>) rows.reach(refused);
        auto const qx = static_cast<real>(rows.of_child(refused)(x));
        if (!(qx > 0 && qx <= largest_number<real>)) return {};
        residual_of_rows<P, Rows> const before{p, &rows, scale, refused};
        if (source.bernoulli(site(purpose::acceptance, refused), before(x), fp::mul(mass, qx))) return {refused, x};
        scale[k] = mass;
        residual_of_rows<P, Rows> const left{p, &rows, scale, refused + 1};
        auto const sums = g.sum_chunks(p.size(), left);
        mass = sums.total;
        if (!(mass > 0) || k + 1 == candidates.size())
            return {none, emit_residual(g, p, left, sums, candidates.first(k + 1), source, site)};
    }
    return {none, emit(g, p, source, site)};
}

}  // namespace MULTIDRAFT_NAMESPACE::verify::detail
