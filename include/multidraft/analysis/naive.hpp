// Acceptance rates of naive verification: the probability that a token from the target was drafted.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

#include "multidraft/analysis/alpha_star.hpp"
#include "multidraft/analysis/input.hpp"
#include "multidraft/analysis/race.hpp"
#include "multidraft/base/config.hpp"

namespace MULTIDRAFT_NAMESPACE::analysis {

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

}  // namespace MULTIDRAFT_NAMESPACE::analysis
