// Acceptance rates of recursive rejection, from its definition: residuals written out, every rejected prefix
// enumerated.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "multidraft/analysis/input.hpp"
#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"

namespace MULTIDRAFT_NAMESPACE::analysis {

/// Recursive rejection of n independent drafts ([MCSD] Alg. 1): 1 - product of sum (r_k - q)+ over k = 1..n, r_1 = p,
/// r_{k+1} = Norm[(r_k - q)+]. O(V n).
///
/// `invalid_input` for rows that are not distributions over one vocabulary and for n < 1.
[[nodiscard]] inline double acceptance_recursive_iid(std::span<double const> p, std::span<double const> q, index_t n) {
    auto rows = detail::checked(p, q);
    detail::check_count(n);
    auto& residual = rows.p;
    double refused = 1;  // the probability that every candidate so far was
    for (index_t k = 0; k < n; ++k) {
        double mass = 0;
        for (std::size_t i = 0; i < residual.size(); ++i) {
            residual[i] = std::max(residual[i] - rows.q[i], 0.0);
            mass += residual[i];
        }
        refused *= mass;
        if (!(mass > 0)) break;
        for (double& r : residual) r /= mass;
    }
    return std::clamp(1 - refused, 0.0, 1.0);
}

namespace detail {

/// The acceptance rate of `left` more candidates, where r is the residual of p and q the law of the next candidate.
inline double accepted_after(std::vector<double> const& r, std::vector<double> const& q, index_t left) {
    double accepted = 0;
    double rest = 0;
    std::vector<double> residual(r.size());
    for (std::size_t i = 0; i < r.size(); ++i) {
        accepted += std::min(r[i], q[i]);
        residual[i] = std::max(r[i] - q[i], 0.0);
        rest += residual[i];
    }
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
/// O(V^n), V the support of q. Throws `invalid_input` when V^(n-1) exceeds 10^6 (use Monte Carlo), for rows that are
/// not distributions over one vocabulary and for n < 1.
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
    double accepted = 0;
    double rest = 0;
    std::vector<double> residual(r.size());
    for (std::size_t i = 0; i < r.size(); ++i) {
        accepted += std::min(r[i], q[i]);
        residual[i] = std::max(r[i] - q[i], 0.0);
        rest += residual[i];
    }
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
/// there is no further one. Exactly, over all rejected prefixes: O(V^n).
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
