// The acceptance rate of speculative sampling.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "multidraft/analysis/input.hpp"

namespace MULTIDRAFT_NAMESPACE::analysis {

/// sum min(p, q), one minus the total variation between the rows: the rate at which one token drawn from q is accepted
/// ([Leviathan23], Corollary 3.6). O(V). `invalid_input` for rows that are not distributions over one
/// vocabulary.
[[nodiscard]] inline double acceptance_speculative_sampling(std::span<double const> p, std::span<double const> q) {
    auto const rows = detail::checked(p, q);
    double result = 0;
    for (std::size_t i = 0; i < rows.p.size(); ++i) result += std::min(rows.p[i], rows.q[i]);
    return std::min(result, 1.0);
}

}  // namespace MULTIDRAFT_NAMESPACE::analysis
