// Acceptance rates in closed form: speculative sampling, naive, K-SEQ, recursive rejection.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "multidraft/analysis/alpha_star.hpp"
#include "multidraft/analysis/input.hpp"
#include "multidraft/analysis/race.hpp"
#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"

namespace MULTIDRAFT_NAMESPACE::analysis {

namespace detail {

/// sum min(r, q).
[[nodiscard]] inline double overlap(std::vector<double> const& r, std::vector<double> const& q) {
    double sum = 0;
    for (std::size_t i = 0; i < r.size(); ++i) sum += std::min(r[i], q[i]);
    return sum;
}

/// r becomes (r - q)+, whose mass is returned.
inline double subtract(std::vector<double>& r, std::vector<double> const& q) {
    double mass = 0;
    for (std::size_t i = 0; i < r.size(); ++i) {
        r[i] = std::max(r[i] - q[i], 0.0);
        mass += r[i];
    }
    return mass;
}

}  // namespace detail

/// sum min(p, q), one minus the total variation between the rows: the rate at which one token drawn from q is accepted
/// ([Leviathan23], Corollary 3.6). O(V). `invalid_input` for rows that are not distributions over one
/// vocabulary.
[[nodiscard]] inline double acceptance_speculative_sampling(std::span<double const> p, std::span<double const> q) {
    auto const rows = detail::checked(p, q);
    return std::min(detail::overlap(rows.p, rows.q), 1.0);
}

// In all of them the rate is the sum over tokens of p times the probability that the token is drafted. `invalid_input`
// for rows that are not distributions over one vocabulary and for n < 1.

/// n independent drafts: sum p (1 - (1-q)^n). O(V).
[[nodiscard]] inline double acceptance_naive_iid(std::span<double const> p, std::span<double const> q, index_t n) {
    auto const rows = detail::checked(p, q);
    detail::check_count(n);
    double result = 0;
    for (std::size_t i = 0; i < rows.p.size(); ++i)
        result += rows.p[i] * (rows.q[i] < 1 ? -std::expm1(n * std::log1p(-rows.q[i])) : 1.0);
    return std::min(result, 1.0);
}

/// n drafts without replacement: sum of p times `sequential_inclusion`, exact up to rounding for any V and n. O(V n) at
/// some hundred points.
[[nodiscard]] inline double acceptance_naive_sequential(std::span<double const> p, std::span<double const> q,
                                                        index_t n) {
    auto const rows = detail::checked(p, q);
    detail::check_count(n);
    return std::min(sequential_drafted_mass(rows.q, rows.p, n), 1.0);
}

/// The n most likely tokens: p of the n largest q, which is the alpha* of such drafts.
[[nodiscard]] inline double acceptance_naive_deterministic(std::span<double const> p, std::span<double const> q,
                                                           index_t n) {
    return alpha_star_deterministic(p, q, n);
}

namespace detail {

/// beta(rho) = sum min(p / rho, q): the probability that one candidate passes.
[[nodiscard]] inline double k_seq_beta(pair const& rows, double rho) {
    double sum = 0;
    for (std::size_t i = 0; i < rows.p.size(); ++i) sum += std::min(rows.p[i] / rho, rows.q[i]);
    return sum;
}

[[nodiscard]] inline double k_seq_rho(pair const& rows, index_t n) {
    auto const excess = [&](double rho) {
        double const beta = k_seq_beta(rows, rho);
        return 1 - std::pow(1 - std::min(beta, 1.0), n) - rho * beta;
    };
    double low = 1;
    double high = n;
    if (excess(low) <= 0) return 1;
    // The excess is decreasing; bisection ends at adjacent numbers.
    for (int k = 0; k < 200 && low < high; ++k) {
        double const middle = 0.5 * (low + high);
        if (middle <= low || middle >= high) break;
        (excess(middle) > 0 ? low : high) = middle;
    }
    return high;
}

}  // namespace detail

/// rho of K-SEQ: the solution in [1, n] of 1 - (1 - beta(rho))^n = rho beta(rho) with beta(rho) = sum min(p / rho, q)
/// ([SpecTr], Algorithm 2 and Theorem 2). From above, to the last bit. O(V) for each step of a bisection.
///
/// Rows may sum to 1 within 1e-4 and are normalised. `invalid_input` for rows of different sizes, entries that are
/// negative or not finite, other sums, n < 1.
[[nodiscard]] inline double k_seq_rho(std::span<double const> p, std::span<double const> q, index_t n) {
    auto const rows = detail::checked(p, q);
    detail::check_count(n);
    return detail::k_seq_rho(rows, n);
}

/// Acceptance rate of K-SEQ over n independent candidates with its best rho: 1 - (1 - beta)^n, at least 1 - 1/e of
/// `alpha_star_iid` ([SpecTr], Theorem 3). Errors as `k_seq_rho`.
[[nodiscard]] inline double acceptance_k_seq(std::span<double const> p, std::span<double const> q, index_t n) {
    auto const rows = detail::checked(p, q);
    detail::check_count(n);
    return 1 - std::pow(1 - std::min(detail::k_seq_beta(rows, detail::k_seq_rho(rows, n)), 1.0), n);
}

namespace detail {

/// The acceptance rate of n candidates that are independent of one another, the k-th from the row `q_of(k)`.
template <class RowOf>
[[nodiscard]] double accepted_in_turn(std::vector<double> residual, index_t n, RowOf const& q_of) {
    double refused = 1;  // the probability that every candidate so far was
    for (index_t k = 0; k < n; ++k) {
        double const mass = subtract(residual, q_of(k));
        refused *= mass;
        if (!(mass > 0)) break;
        for (double& r : residual) r /= mass;
    }
    return std::clamp(1 - refused, 0.0, 1.0);
}

}  // namespace detail

/// Recursive rejection of n independent drafts ([MCSD] Alg. 1): 1 - product of sum (r_k - q)+ over k = 1..n, r_1 = p,
/// r_{k+1} = Norm[(r_k - q)+]. O(V n).
///
/// `invalid_input` for rows that are not distributions over one vocabulary and for n < 1.
[[nodiscard]] inline double acceptance_recursive_iid(std::span<double const> p, std::span<double const> q, index_t n) {
    auto const rows = detail::checked(p, q);
    detail::check_count(n);
    return detail::accepted_in_turn(
        rows.p, n, [&](index_t) -> auto const& { return rows.q; });
}

namespace detail {

/// The acceptance rate of `left` more candidates, where r is the residual of p and q the law of the next candidate.
inline double accepted_after(std::vector<double> const& r, std::vector<double> const& q, index_t left) {
    double accepted = overlap(r, q);
    std::vector<double> residual = r;
    double const rest = subtract(residual, q);
    if (left == 1 || !(rest > 0)) return accepted;
    for (double& x : residual) x /= rest;
    std::vector<double> next(q.size());
    for (std::size_t x = 0; x < q.size(); ++x) {
        if (!(q[x] > r[x])) continue;  // a candidate that is never rejected
        double mass = 0;
        for (std::size_t i = 0; i < q.size(); ++i) mass += i == x ? 0.0 : q[i];
        if (!(mass > 0)) continue;  // the support is exhausted: there is no further candidate
        for (std::size_t i = 0; i < q.size(); ++i) next[i] = i == x ? 0.0 : q[i] / mass;
        accepted += (q[x] - r[x]) * accepted_after(residual, next, left - 1);
    }
    return accepted;
}

}  // namespace detail

/// Recursive rejection of n drafts without replacement ([MCSD] Alg. 2; [RSD] Alg. 1), exactly, over all rejected
/// prefixes.
///
/// O(V^(n-1)) prefixes, V the support of q, each in O(V) for the row and its support. Throws `invalid_input` when
/// V^(n-1) exceeds 10^6 (use Monte Carlo), for rows that are not distributions over one vocabulary and for n < 1.
[[nodiscard]] inline double acceptance_recursive_sequential(std::span<double const> p, std::span<double const> q,
                                                            index_t n) {
    auto const rows = detail::checked(p, q);
    detail::check_count(n);
    index_t const support = detail::support_of(rows.q);
    index_t const drafted = std::min(n, support);
    if (std::pow(support, drafted - 1) > 1e6)
        refuse(
            "n", n,
            "too many rejected prefixes to walk (V^(n-1) is above 10^6): estimate this rate by Monte Carlo, from runs "
            "of the verifier");
    return std::min(detail::accepted_after(rows.p, rows.q, drafted), 1.0);
}

namespace detail {

/// The acceptance rate of `left` more candidates after those drawn, where r is the residual of p.
template <class Conditional>
double accepted_given(std::vector<double> const& r, std::vector<token_id>& drawn, index_t left,
                      Conditional const& conditional) {
    std::vector<double> const row = conditional(std::span<token_id const>(drawn));
    if (row.size() != r.size()) refuse("conditional.size", row.size(), "target and draft have one vocabulary");
    if (std::none_of(row.begin(), row.end(), [](double x) { return !(x == 0); })) return 0;  // no further candidate
    auto const q = checked(row, "conditional");
    double accepted = overlap(r, q);
    std::vector<double> residual = r;
    double const rest = subtract(residual, q);
    if (left == 1 || !(rest > 0)) return accepted;
    for (double& x : residual) x /= rest;
    for (std::size_t x = 0; x < q.size(); ++x) {
        if (!(q[x] > r[x])) continue;  // a candidate that is never rejected
        drawn.push_back(static_cast<token_id>(x));
        accepted += (q[x] - r[x]) * accepted_given(residual, drawn, left - 1, conditional);
        drawn.pop_back();
    }
    return accepted;
}

}  // namespace detail

/// Recursive rejection of n drafts of any law, given by its conditionals ([RSD] Alg. 1): `conditional(drawn)` is the
/// row that the next token is drawn from after the tokens `drawn`, a `std::span<token_id const>`; a row of zeros where
/// there is no further one. Exactly, over all rejected prefixes, without a limit of their number: O(V^n).
///
/// Throws `invalid_input` for n < 1 and for rows that are not distributions over one vocabulary.
template <class Conditional>
[[nodiscard]] double acceptance_recursive_conditionals(std::span<double const> p, index_t n,
                                                       Conditional const& conditional) {
    auto const row = detail::checked(p, "p");
    detail::check_count(n);
    std::vector<token_id> drawn;
    return std::min(detail::accepted_given(row, drawn, n, conditional), 1.0);
}

}  // namespace MULTIDRAFT_NAMESPACE::analysis
