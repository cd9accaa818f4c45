// alpha*: the acceptance rate that no lossless verifier of a draft law can exceed.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "multidraft/analysis/input.hpp"
#include "multidraft/analysis/race.hpp"
#include "multidraft/core/config.hpp"
#include "multidraft/core/error.hpp"

namespace multidraft::analysis {

// For every law, alpha* = 1 + min over sets H of tokens of p(H) - Q(H), with Q(H) = P(all drafted tokens lie in H)
// (Optimal MDSD (8)). For the laws below the minimum is reached at a prefix of the tokens sorted by q/p.
//
// All functions: p is the target's row, q the draft's, n the number of tokens drafted at the node. Rows may sum to 1
// within 1e-4 and are normalised. `invalid_input` for rows of different sizes, entries that are negative or not finite,
// other sums, n < 1.

namespace detail {

/// The tokens by q/p, largest first; those without draft mass last.
[[nodiscard]] inline std::vector<std::size_t> by_ratio(std::span<double const> p, std::span<double const> q) {
    std::vector<double> ratio(p.size());
    for (std::size_t i = 0; i < p.size(); ++i)
        ratio[i] = q[i] > 0 ? p[i] / q[i] : std::numeric_limits<double>::infinity();
    std::vector<std::size_t> order(p.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return ratio[a] < ratio[b] || (ratio[a] == ratio[b] && a < b); });
    return order;
}

/// The tokens by q, largest first, ties to the lower token; those without mass left out, at most `count`.
[[nodiscard]] inline std::vector<std::size_t> top(std::span<double const> q, index_t count) {
    std::vector<std::size_t> order(q.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return q[a] > q[b] || (q[a] == q[b] && a < b); });
    order.resize(static_cast<std::size_t>(std::min(count, support_of(q))));
    return order;
}

}  // namespace detail

/// alpha* of `law::iid`: min over prefixes of p(H) - q(H)^n. O(V log V).
[[nodiscard]] inline double alpha_star_iid(std::span<double const> p, std::span<double const> q, index_t n) {
    auto const rows = detail::checked(p, q);
    detail::check_count(n);
    double inside_p = 0;
    double inside_q = 0;
    double least = 0;
    for (std::size_t const i : detail::by_ratio(rows.p, rows.q)) {
        inside_p += rows.p[i];
        inside_q += rows.q[i];
        least = std::min(least, inside_p - std::pow(std::min(inside_q, 1.0), n));
    }
    return 1 + least;
}

/// alpha* of conditional Poisson sampling, P(S) in proportion to the product of q over the n different tokens of S.
///
/// Q(H) is a quotient of elementary symmetric polynomials (Optimal MDSD 4.2.2, which gives it for draws without
/// replacement: those have `alpha_star_sequential`). O(V log V + V n). n is at most q's support.
[[nodiscard]] inline double alpha_star_conditional_poisson(std::span<double const> p, std::span<double const> q,
                                                           index_t n) {
    auto const rows = detail::checked(p, q);
    detail::check_count(n);
    if (n > detail::support_of(rows.q)) refuse("n", n, "there are fewer tokens to which q gives mass");
    // The quotient does not change when all q are multiplied by a number; this one puts the largest product at 1.
    double log_product = 0;
    for (std::size_t const i : detail::top(rows.q, n)) log_product += std::log(rows.q[i]);
    double const scale = std::exp(-log_product / n);
    std::vector<double> sums(static_cast<std::size_t>(n) + 1, 0.0);  // over the sets of k tokens inside
    sums[0] = 1;
    std::vector<double> inside;
    auto const order = detail::by_ratio(rows.p, rows.q);
    for (std::size_t const i : order) {
        for (std::size_t k = sums.size() - 1; k > 0; --k) sums[k] += scale * rows.q[i] * sums[k - 1];
        inside.push_back(sums.back());
    }
    double inside_p = 0;
    double least = 0;
    for (std::size_t k = 0; k < order.size(); ++k) {
        inside_p += rows.p[order[k]];
        least = std::min(least, inside_p - inside[k] / sums.back());
    }
    return 1 + least;
}

/// alpha* of `law::sequential`, with Q by the race integral (`sequential_inside`). When fewer than n tokens have mass,
/// all of them are drafted.
///
/// That the minimum is at a prefix is no theorem for this law; it held in every case checked by linear program.
/// O(V n) at each of about a thousand points.
[[nodiscard]] inline double alpha_star_sequential(std::span<double const> p, std::span<double const> q, index_t n) {
    auto const rows = detail::checked(p, q);
    detail::check_count(n);
    auto const order = detail::by_ratio(rows.p, rows.q);
    auto const inside = sequential_inside(rows.q, order, std::min(n, detail::support_of(rows.q)));
    double inside_p = 0;
    double least = 0;
    for (std::size_t k = 0; k < order.size(); ++k) {
        inside_p += rows.p[order[k]];
        least = std::min(least, inside_p - inside[k + 1]);
    }
    return 1 + least;
}

/// alpha* of stratified drafts: the top n - j of q with certainty, then j independent draws from the rest, 1 <= j <= n.
///
/// j = n is `alpha_star_iid`; j = 1 is the greedy draft of Optimal MDSD 5.1, whose alpha* is p(top) + sum min(p, q~)
/// (Theorem 7). O(V log V).
[[nodiscard]] inline double alpha_star_stratified(std::span<double const> p, std::span<double const> q, index_t n,
                                                  index_t j) {
    auto rows = detail::checked(p, q);
    detail::check_count(n);
    if (j < 1 || j > n) refuse("j", j, "of n = " + std::to_string(n) + " tokens 1 to n are drawn at random");
    double certain = 0;
    for (std::size_t const i : detail::top(rows.q, n - j)) {
        certain += rows.p[i];
        rows.p[i] = 0;
        rows.q[i] = 0;
    }
    double const rest = std::accumulate(rows.q.begin(), rows.q.end(), 0.0);
    if (!(rest > 0)) return std::min(certain, 1.0);
    for (double& x : rows.q) x /= rest;
    // Q(H) is 0 unless H holds the tokens drafted with certainty.
    double inside_p = certain;
    double inside_q = 0;
    double least = 0;
    for (std::size_t const i : detail::by_ratio(rows.p, rows.q)) {
        inside_p += rows.p[i];
        inside_q += rows.q[i];
        least = std::min(least, inside_p - std::pow(std::min(inside_q, 1.0), j));
    }
    return 1 + least;
}

/// alpha* of `law::deterministic`: p of the n largest q, ties to the lower token, tokens of no mass left out. O(V log
/// V).
///
/// `verify::naive` reaches it.
[[nodiscard]] inline double alpha_star_deterministic(std::span<double const> p, std::span<double const> q, index_t n) {
    auto const rows = detail::checked(p, q);
    detail::check_count(n);
    double result = 0;
    for (std::size_t const i : detail::top(rows.q, n)) result += rows.p[i];
    return std::min(result, 1.0);
}

}  // namespace multidraft::analysis
