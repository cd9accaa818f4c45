// Sets of different tokens with a probability in proportion to the product of their q.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/fma.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/draft/sampler.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/distribution.hpp"

namespace MULTIDRAFT_NAMESPACE::draft {

/// n different tokens: the set S is drawn with P(S) proportional to the product of its q ([ConditionalPoisson];
/// [OptimalMDSD] 4.2.2 gives the bound of this law). It is the law of n independent draws, conditioned on being
/// different. Written in increasing order of the token, since only the set is random.
///
/// By elementary symmetric polynomials e_k, in double; sums over a row are in its own type. The n most likely tokens
/// are decided one after another by Bernoulli draws: token i is included with probability q_i e_{k-1}(later ones) /
/// e_k(i and later ones). The polynomials of the other tokens, the rest, come from their power sums, and the remaining
/// tokens are drawn from the rest one by one, x with probability proportional to q_x e_{k-1}(rest without x). (Newton's
/// identities cancel where few tokens of the rest have all its mass. Each of these is then at most as likely as any of
/// the n, so that the loss is small relative to e_n of all tokens.) Cost: a selection and 2 n passes over the row at
/// most, no memory of its size.
///
/// When fewer than n tokens can be drawn, all of them are taken. Up to 16 children; more are an `invalid_input`
/// on the host, and on devices nothing is drawn.
struct conditional_poisson {
    using law = multidraft::law::conditional_poisson;
    static constexpr std::size_t most = 16;

    /// Throws `invalid_input` for more children than it draws; `index` is of the `argument`.
    static void check(char const* argument, std::int64_t index, std::int64_t children) {
        if (children > static_cast<std::int64_t>(most))
            refuse(argument, index, children, "conditional Poisson sampling draws up to 16 children");
    }

    template <group G, distribution Q, class Sums, draw_source Source>
    MULTIDRAFT_HD drawn_children operator()(G const& g, Q const& q, Sums const& sums, Source& source, draw_site site,
                                            span<token_id> out) const {
        if (out.size() > most) {
#if !MULTIDRAFT_ON_DEVICE
            if constexpr (G::throws) check("children", site.node, static_cast<std::int64_t>(out.size()));
#endif
            return {};
        }
        if (out.empty() || !can_draw(sums)) return {};
        index_t const size = q.size();
        auto const wanted = static_cast<index_t>(out.size());
        // Weights as fractions of the total: e_n of them is a probability and cannot overflow.
        part_of_rest<Q> const rest{q, likeliest(g, q, out), static_cast<double>(sums.total)};
        polynomials below = of_rest(g, rest, size, wanted);
        chosen drawn;
        index_t left = draw_listed(rest, below, wanted, source, site, drawn);
        for (index_t k = 0; left > 0; ++k) {
            if (!(below.e[left] > 0)) break;
            weight_of_set<Q> const weight{rest, drawn, below, left};
            auto const weights = g.sum_chunks(size, weight);
            if (!(weights.total > 0)) break;
            index_t const x =
                source.categorical(g, weights, size, weight, {}, site(purpose::draft, static_cast<index_t>(most) + k));
            if (x == none) break;
            below.remove(rest(x));
            drawn.insert(x);
            --left;
        }
        if (g.leader())
            for (index_t k = 0; k < drawn.count; ++k) out[k] = drawn.token[k];
        g.barrier();
        return {drawn.count};
    }

private:
    /// Some tokens.
    struct chosen {
        token_id token[most] = {};
        index_t count = 0;

        /// In increasing order.
        MULTIDRAFT_HD void insert(token_id x) noexcept {
            index_t k = count++;
            for (; k > 0 && token[k - 1] > x; --k) token[k] = token[k - 1];
            token[k] = x;
        }
        [[nodiscard]] MULTIDRAFT_HD bool has(token_id x) const noexcept {
            bool found = false;
            for (index_t k = 0; k < count; ++k) found = found || token[k] == x;
            return found;
        }
    };

    /// q of a token over that of all, 0 for the listed tokens.
    template <distribution Q>
    struct part_of_rest {
        Q q;
        chosen listed;
        double whole;

        [[nodiscard]] MULTIDRAFT_HD double part(index_t i) const {
            return fp::div(static_cast<double>(q.weight(i)), whole);
        }
        [[nodiscard]] MULTIDRAFT_HD double operator()(index_t i) const { return listed.has(i) ? 0.0 : part(i); }
    };

    /// A power of a token's fraction of the rest, whose mass is given, in the row's own type.
    template <distribution Q>
    struct power_of_rest {
        part_of_rest<Q> rest;
        double mass;
        index_t exponent;

        [[nodiscard]] MULTIDRAFT_HD probability_of<Q> operator()(index_t i) const {
            double const x = fp::div(rest(i), mass);
            double power = x;
            for (index_t k = 1; k < exponent; ++k) power = fp::mul(power, x);
            return static_cast<probability_of<Q>>(power);
        }
    };

    /// e_0 .. e_n of a set of numbers.
    struct polynomials {
        double e[most + 1] = {1};
        index_t n = 0;

        polynomials() = default;
        MULTIDRAFT_HD explicit polynomials(index_t degree) noexcept : n(degree) {}

        MULTIDRAFT_HD void add(double x) noexcept {
            for (index_t k = n; k > 0; --k) e[k] = fp::fma(x, e[k - 1], e[k]);
        }
        /// e_k without one of the numbers.
        [[nodiscard]] MULTIDRAFT_HD double without(double x, index_t k) const noexcept {
            double value = 1;
            for (index_t i = 1; i <= k; ++i) value = fp::fma(-x, value, e[i]);
            return value > 0 ? value : 0.0;
        }
        MULTIDRAFT_HD void remove(double x) noexcept {
            for (index_t k = 1; k <= n; ++k) {
                double const value = fp::fma(-x, e[k - 1], e[k]);
                e[k] = value > 0 ? value : 0.0;
            }
        }
        /// Newton's identities. A result within the rounding error of its own terms is set to 0, as e_2 of a single
        /// number should be.
        MULTIDRAFT_HD void from_power_sums(double const* power, double rounding) noexcept {
            for (index_t k = 1; k <= n; ++k) {
                double sum = 0;
                double size = 0;
                for (index_t i = 1; i <= k; ++i) {
                    sum = fp::fma(i % 2 == 1 ? e[k - i] : -e[k - i], power[i], sum);
                    size = fp::fma(e[k - i], power[i], size);
                }
                e[k] = sum > fp::mul(size, rounding) ? fp::div(sum, static_cast<double>(k)) : 0.0;
            }
        }
        /// The polynomials of the numbers times x.
        MULTIDRAFT_HD void scale(double x) noexcept {
            double power = 1;
            for (index_t k = 1; k <= n; ++k) {
                power = fp::mul(power, x);
                e[k] = fp::mul(e[k], power);
            }
        }
    };

    /// q_x e_{k-1}(rest without x) / e_k(rest), for tokens of the rest that were not drawn, in the row's own type; the
    /// sum is k.
    template <distribution Q>
    struct weight_of_set {
        part_of_rest<Q> rest;
        chosen drawn;
        polynomials of_rest;
        index_t k;

        [[nodiscard]] MULTIDRAFT_HD probability_of<Q> operator()(index_t i) const {
            double const x = drawn.has(i) ? 0.0 : rest(i);
            return static_cast<probability_of<Q>>(fp::div(fp::mul(x, of_rest.without(x, k - 1)), of_rest.e[k]));
        }
    };

    /// The `room.size()` likeliest tokens, likeliest first, written to `room`.
    template <group G, distribution Q>
    [[nodiscard]] MULTIDRAFT_HD static chosen likeliest(G const& g, Q const& q, span<token_id> room) {
        chosen top;
        auto const wanted = static_cast<index_t>(room.size());
        top.count = q.size() < wanted ? q.size() : wanted;
        span<token_id> const tops = room.first(static_cast<std::size_t>(top.count));
        g.top_k(q.size(), weight_of{q}, tops);
        g.barrier();
        for (index_t i = 0; i < top.count; ++i) top.token[i] = tops[i];
        g.barrier();  // `room` is overwritten next
        return top;
    }

    /// e_0 .. e_n of the tokens that are not listed, n passes over the row.
    template <group G, distribution Q>
    [[nodiscard]] MULTIDRAFT_HD static polynomials of_rest(G const& g, part_of_rest<Q> const& rest, index_t size,
                                                           index_t n) {
        using real = probability_of<Q>;
        polynomials result(n);
        double const mass =
            size > rest.listed.count ? static_cast<double>(g.sum(size, power_of_rest<Q>{rest, 1, 1})) : 0.0;
        if (!(mass >= static_cast<double>(least_drawable<real>))) return result;
        // In fractions of the rest: no power overflows, and those that underflow are negligible.
        double power[most + 1] = {0, 1};
        for (index_t k = 2; k <= n; ++k) power[k] = static_cast<double>(g.sum(size, power_of_rest<Q>{rest, mass, k}));
        result.from_power_sums(power, 16 * static_cast<double>(epsilon<real>));
        result.scale(mass);
        return result;
    }

    /// Decides about the listed tokens one after another, and returns how many are left to draw of the rest.
    template <distribution Q, draw_source Source>
    [[nodiscard]] MULTIDRAFT_HD static index_t draw_listed(part_of_rest<Q> const& rest, polynomials const& below,
                                                           index_t wanted, Source& source, draw_site site,
                                                           chosen& drawn) {
        chosen const& top = rest.listed;
        // Suffixes: after[i] belongs to the listed tokens from i on together with the rest.
        polynomials after[most + 1];
        after[top.count] = below;
        for (index_t i = top.count; i-- > 0;) {
            after[i] = after[i + 1];
            after[i].add(rest.part(top.token[i]));
        }
        index_t left = wanted;
        while (left > 0 && !(after[0].e[left] > 0)) --left;
        for (index_t i = 0; i < top.count && left > 0; ++i) {
            double const in = fp::mul(rest.part(top.token[i]), after[i + 1].e[left - 1]);
            if (!source.bernoulli(site(purpose::draft, i), in, in + after[i + 1].e[left])) continue;
            drawn.insert(top.token[i]);
            --left;
        }
        return left;
    }
};

}  // namespace MULTIDRAFT_NAMESPACE::draft
