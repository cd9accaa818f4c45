// alpha*: the acceptance rate that no lossless verifier of a draft law can exceed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "multidraft/analysis/input.hpp"
#include "multidraft/analysis/race.hpp"
#include "multidraft/analysis/ratio_rows.hpp"
#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"

namespace MULTIDRAFT_NAMESPACE::analysis {

// For every law, alpha* = 1 + min over sets H of tokens of p(H) - Q(H), with Q(H) = P(all drafted tokens lie in H)
// ([OptimalMDSD] (8)). For the laws below the minimum is reached at a prefix of the tokens sorted by q/p.
//
// Each takes two rows, or `ratio_rows` made from them once: sorting dominates the cost of several rates of the same
// rows.
//
// All functions: p is the target's row, q the draft's, n the number of tokens drafted at the node. Rows may sum to 1
// within 1e-4 and are normalised. `invalid_input` for rows of different sizes, entries that are negative or not finite,
// other sums, n < 1.

namespace detail {

/// The tokens by q, largest first, ties to the lower token; those without mass left out, at most `count`.
[[nodiscard]] inline std::vector<std::size_t> top(std::span<double const> q, index_t count) {
    std::vector<std::size_t> order(q.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    auto const wanted = static_cast<std::size_t>(std::min(count, support_of(q)));
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(wanted), order.end(),
                      [&](std::size_t a, std::size_t b) { return q[a] > q[b] || (q[a] == q[b] && a < b); });
    order.resize(wanted);
    return order;
}

}  // namespace detail

namespace detail {

/// min over prefixes of p(H) - q(H)^n, where every set also has the mass `certain` of p. Rows sorted by q/p.
template <class P, class Q>
[[nodiscard]] double least_of_independent(std::size_t size, P p, Q q, double certain, index_t n) {
    double inside_p = certain;
    double inside_q = 0;
    double least = 0;
    for (std::size_t k = 0; k < size; ++k) {
        inside_p += p(k);
        inside_q += q(k);
        double const x = std::min(inside_q, 1.0);
        double power = x;
        if (n <= 8)
            for (index_t i = 1; i < n; ++i) power *= x;
        else
            power = std::pow(x, n);
        least = std::min(least, inside_p - power);
    }
    return least;
}

}  // namespace detail

/// alpha* of `law::iid`: min over prefixes of p(H) - q(H)^n. O(V log V), or O(V) when sorted.
[[nodiscard]] inline double alpha_star_iid(ratio_rows const& rows, index_t n) {
    detail::check_count(n);
    return 1 + detail::least_of_independent(
                   rows.size(), [&](std::size_t k) { return rows.p()[k]; }, [&](std::size_t k) { return rows.q()[k]; },
                   0.0, n);
}
[[nodiscard]] inline double alpha_star_iid(std::span<double const> p, std::span<double const> q, index_t n) {
    return alpha_star_iid(ratio_rows(p, q), n);
}

namespace detail {

/// x such that the sum of x q / (1 + x q) is about n, where n is less than the number of tokens with mass.
[[nodiscard]] inline double odds_of_mean(std::span<double const> q, index_t n) {
    double low = -1;
    double high = 700;  // logarithms; the sum is at most x, as q sums to 1
    double x = 1;
    for (int step = 0; step < 60; ++step) {
        x = std::exp((low + high) / 2);
        double mean = 0;
        for (double const y : q) mean += x * y / (1 + x * y);
        if (std::abs(mean - n) < 0.01) break;
        (mean < n ? low : high) = (low + high) / 2;
    }
    return x;
}

}  // namespace detail

/// alpha* of conditional Poisson sampling, P(S) in proportion to the product of q over the n different tokens of S.
///
/// Q(H) is a quotient of elementary symmetric polynomials ([OptimalMDSD] 4.2.2, which states it for draws without
/// replacement; for those use `alpha_star_sequential`). O(V log V + V n). n is at most q's support.
[[nodiscard]] inline double alpha_star_conditional_poisson(ratio_rows const& rows, index_t n) {
    detail::check_count(n);
    if (n > rows.support()) refuse("n", n, "there are fewer tokens to which q gives mass");
    double inside_p = 0;
    double least = 0;
    if (n == rows.support()) {  // all of them
        for (std::size_t k = 0; k < static_cast<std::size_t>(n); ++k) inside_p += rows.p()[k];
        return std::min(inside_p, 1.0);
    }
    // Include every token by a Bernoulli draw with odds proportional to q; conditioned on n included tokens the set has
    // this law. The factor is chosen so that the mean is n and nothing underflows: Q(H) = P(n of H, none of the others)
    // / P(n of all).
    double const factor = detail::odds_of_mean(rows.q(), n);
    std::vector<double> counts(static_cast<std::size_t>(n) + 1, 0.0);  // P(exactly c of those inside are included)
    counts[0] = 1;
    std::vector<double> inside(rows.size());
    std::vector<double> nobody(rows.size() + 1, 1.0);  // P(none of those from k on)
    for (std::size_t k = rows.size(); k-- > 0;) nobody[k] = nobody[k + 1] / (1 + factor * rows.q()[k]);
    for (std::size_t k = 0; k < rows.size(); ++k) {
        double const odds = factor * rows.q()[k];
        double const out = 1 / (1 + odds);
        double const in = odds * out;
        for (std::size_t c = counts.size() - 1; c > 0; --c) counts[c] = counts[c] * out + counts[c - 1] * in;
        counts[0] *= out;
        inside[k] = counts.back() * nobody[k + 1];
    }
    for (std::size_t k = 0; k < rows.size(); ++k) {
        inside_p += rows.p()[k];
        least = std::min(least, inside_p - inside[k] / counts.back());
    }
    return 1 + least;
}
[[nodiscard]] inline double alpha_star_conditional_poisson(std::span<double const> p, std::span<double const> q,
                                                           index_t n) {
    return alpha_star_conditional_poisson(ratio_rows(p, q), n);
}

/// alpha* of `law::sequential`, with Q by the race integral (`sequential_inside`). When fewer than n tokens have mass,
/// all of them are drafted.
///
/// The minimum is at a prefix since this Q is q-convex too ([OptimalMDSD] proves Theorem 4 for `conditional_poisson`;
/// docs/research.md has a proof for this law). O(V log V), and O(V n) at each of about a hundred points.
[[nodiscard]] inline double alpha_star_sequential(ratio_rows const& rows, index_t n) {
    detail::check_count(n);
    auto const inside = sequential_inside(rows.q(), std::min(n, rows.support()));
    double inside_p = 0;
    double least = 0;
    for (std::size_t k = 0; k < rows.size(); ++k) {
        inside_p += rows.p()[k];
        least = std::min(least, inside_p - inside[k + 1]);
    }
    return 1 + least;
}
[[nodiscard]] inline double alpha_star_sequential(std::span<double const> p, std::span<double const> q, index_t n) {
    return alpha_star_sequential(ratio_rows(p, q), n);
}

/// alpha* of stratified drafts: the top n - j of q with certainty, then j independent draws from the rest, 1 <= j <= n.
///
/// j = n is `alpha_star_iid`; j = 1 is the greedy draft of [OptimalMDSD] 5.1, whose alpha* is p(top) + sum min(p, q~)
/// (Theorem 7). O(V log V), or O(V) when sorted.
[[nodiscard]] inline double alpha_star_stratified(ratio_rows const& rows, index_t n, index_t j) {
    detail::check_count(n);
    if (j < 1 || j > n) refuse("j", j, "of n = " + std::to_string(n) + " tokens 1 to n are drawn at random");
    auto certain = rows.top(n - j);
    std::sort(certain.begin(), certain.end());
    double certain_p = 0;
    for (std::size_t const k : certain) certain_p += rows.p()[k];
    // The rest of the rows, still sorted by q/p.
    std::vector<double> p;
    std::vector<double> q;
    p.reserve(rows.size());
    q.reserve(rows.size());
    double rest = 0;
    auto next = certain.begin();
    for (std::size_t k = 0; k < rows.size(); ++k) {
        if (next != certain.end() && *next == k) {
            ++next;
            continue;
        }
        p.push_back(rows.p()[k]);
        q.push_back(rows.q()[k]);
        rest += q.back();
    }
    if (!(rest > 0)) return std::min(certain_p, 1.0);
    // Q(H) is 0 unless H contains the tokens drafted with certainty.
    return 1 +
           detail::least_of_independent(
               p.size(), [&](std::size_t k) { return p[k]; }, [&](std::size_t k) { return q[k] / rest; }, certain_p, j);
}
[[nodiscard]] inline double alpha_star_stratified(std::span<double const> p, std::span<double const> q, index_t n,
                                                  index_t j) {
    return alpha_star_stratified(ratio_rows(p, q), n, j);
}

/// alpha* of `law::deterministic`: p of the n largest q, ties to the lower token, without tokens of no mass. O(V log
/// n).
///
/// `verify::naive` reaches it.
[[nodiscard]] inline double alpha_star_deterministic(ratio_rows const& rows, index_t n) {
    detail::check_count(n);
    double result = 0;
    for (std::size_t const k : rows.top(n)) result += rows.p()[k];
    return std::min(result, 1.0);
}
[[nodiscard]] inline double alpha_star_deterministic(std::span<double const> p, std::span<double const> q, index_t n) {
    auto const rows = detail::checked(p, q);
    detail::check_count(n);
    double result = 0;
    for (std::size_t const i : detail::top(rows.q, n)) result += rows.p[i];
    return std::min(result, 1.0);
}

}  // namespace MULTIDRAFT_NAMESPACE::analysis
