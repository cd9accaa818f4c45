// The acceptance rate of K-SEQ, and the factor rho that it needs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

#include "multidraft/analysis/input.hpp"
#include "multidraft/base/config.hpp"

namespace MULTIDRAFT_NAMESPACE::analysis {

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

}  // namespace MULTIDRAFT_NAMESPACE::analysis
