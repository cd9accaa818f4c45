// Sets of different tokens with a probability in proportion to the product of their q.
#pragma once

#include <algorithm>
#include <cstddef>

#include "multidraft/core/error.hpp"
#include "multidraft/core/group.hpp"
#include "multidraft/core/span.hpp"
#include "multidraft/distribution/distribution.hpp"
#include "multidraft/draft/law.hpp"
#include "multidraft/draft/sampler.hpp"
#include "multidraft/random/source.hpp"

namespace multidraft::draft {

/// n different tokens, the set S with P(S) in proportion to the product of its q (conditional Poisson sampling; the law
/// whose bound Optimal MDSD 4.2.2 gives): what n independent draws are, given that they are different. Written in
/// increasing order of the token, since the set is all that was drawn.
///
/// By elementary symmetric polynomials e_k, in double. The most likely 32 tokens are decided one after another by
/// coins, token i being in with probability q_i e_{k-1}(later ones) / e_k(i and later ones); the polynomials of the
/// rest, whose q are small, come from their power sums without loss, and what is left to draw of the rest is drawn
/// token by token, x in proportion to q_x e_{k-1}(rest without x). Cost: 2 n passes over the row at most, no memory of
/// its size.
///
/// When the support of q is smaller than n, the whole support. Up to 16 children; more are an `invalid_input`. On the
/// host: its sums are of doubles.
struct conditional_poisson {
    using law = multidraft::law::conditional_poisson;
    static constexpr std::size_t most = 16;

    template <group G, distribution Q, class Ledger, draw_source Source>
    index_t operator()(G const& g, Q const& q, Ledger& sums, Source& source, place where, span<token_id> out) const {
        if (out.size() > most)
            refuse("children", where.node, out.size(), "conditional Poisson sampling draws up to 16 children");
        if (out.empty() || !(sums.total > 0)) return 0;
        constexpr std::size_t listed = 32;
        token_id top[listed];
        auto const size = q.size();
        auto const count = std::min(listed, static_cast<std::size_t>(std::max<index_t>(size, 0)));
        span<token_id> const tops(top, count);
        g.top(size, weight_of{q}, tops);

        // Weights as parts of the whole: e_n of them is a probability and cannot overflow.
        auto const whole = static_cast<double>(sums.total);
        auto const part = [&](index_t i) { return static_cast<double>(q.weight(i)) / whole; };
        span<token_id const> const taken(top, count);
        auto const rest = [&](index_t i) {
            for (token_id const x : taken)
                if (x == i) return 0.0;
            return part(i);
        };
        polynomials below(static_cast<int>(out.size()));
        if (static_cast<std::size_t>(size) > count) {
            double power[most + 1] = {};
            for (std::size_t k = 1; k <= out.size(); ++k)
                power[k] = g.sum(size, [&](index_t i) {
                    double const x = rest(i);
                    double product = x;
                    for (std::size_t j = 1; j < k; ++j) product *= x;
                    return product;
                });
            below.from_power_sums(power);
        }
        // Suffixes: after[i] is of the listed tokens from i on and the rest.
        polynomials after[listed + 1];
        after[count] = below;
        for (std::size_t i = count; i-- > 0;) {
            after[i] = after[i + 1];
            after[i].add(part(top[i]));
        }
        auto left = static_cast<int>(out.size());
        while (left > 0 && !(after[0].e[left] > 0)) --left;
        index_t drawn = 0;
        for (std::size_t i = 0; i < count && left > 0; ++i) {
            double const in = part(top[i]) * after[i + 1].e[left - 1];
            if (!source.coin(where(purpose::draft, static_cast<index_t>(i)), in, in + after[i + 1].e[left])) continue;
            out[static_cast<std::size_t>(drawn++)] = top[i];
            --left;
        }
        for (int k = 0; left > 0; ++k) {
            auto const already = span<token_id const>(out).first(static_cast<std::size_t>(drawn));
            auto const weight = [&](index_t i) {
                double x = rest(i);
                for (token_id const t : already)
                    if (t == i) x = 0;
                return x * std::max(below.without(x, left - 1), 0.0);
            };
            auto const weights = g.weigh(size, weight);
            if (!(weights.total > 0)) break;
            index_t const x =
                source.pick(g, weights, size, weight, {}, where(purpose::draft, static_cast<index_t>(listed) + k));
            if (x == none) break;
            below.remove(rest(x));
            out[static_cast<std::size_t>(drawn++)] = x;
            --left;
        }
        std::sort(out.begin(), out.begin() + drawn);
        return drawn;
    }

private:
    /// e_0 .. e_n of a set of numbers.
    struct polynomials {
        double e[most + 1] = {1};
        int n = 0;

        polynomials() = default;
        explicit polynomials(int degree) noexcept : n(degree) {}

        void add(double x) noexcept {
            for (int k = n; k > 0; --k) e[k] += x * e[k - 1];
        }
        /// e_k without one of the numbers.
        [[nodiscard]] double without(double x, int k) const noexcept {
            double value = 1;
            for (int i = 1; i <= k; ++i) value = e[i] - x * value;
            return value;
        }
        void remove(double x) noexcept {
            for (int k = 1; k <= n; ++k) e[k] = std::max(e[k] - x * e[k - 1], 0.0);
        }
        /// Newton's identities.
        void from_power_sums(double const* power) noexcept {
            for (int k = 1; k <= n; ++k) {
                double sum = 0;
                for (int i = 1; i <= k; ++i) sum += (i % 2 == 1 ? 1.0 : -1.0) * e[k - i] * power[i];
                e[k] = std::max(sum / k, 0.0);
            }
        }
    };
};

}  // namespace multidraft::draft
