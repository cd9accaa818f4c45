// The checks of rows in this module: two distributions over one vocabulary.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/numbers.hpp"

namespace MULTIDRAFT_NAMESPACE::analysis::detail {

/// The row divided by its sum, which rows computed in single precision may miss by their rounding. Throws
/// `invalid_input` naming `argument` unless it is a distribution.
[[nodiscard]] inline std::vector<double> checked(std::span<double const> row, char const* argument) {
    validate_row_size(row.size(), argument);
    double sum = 0;
    for (std::size_t i = 0; i < row.size(); ++i) {
        if (!(row[i] >= 0) || !std::isfinite(row[i]))
            refuse(argument, static_cast<std::int64_t>(i), row[i], "a probability is finite and not negative");
        sum += row[i];
    }
    if (!(std::abs(sum - 1) <= sum_tolerance<float>))
        refuse("sum(" + std::string(argument) + ")", sum, "the probabilities of a row sum to 1");
    std::vector<double> result(row.begin(), row.end());
    for (double& x : result) x /= sum;
    return result;
}

/// A target row and a draft row that were checked.
struct pair {
    std::vector<double> p;
    std::vector<double> q;
};

[[nodiscard]] inline pair checked(std::span<double const> p, std::span<double const> q) {
    if (q.size() != p.size()) refuse("q.size", q.size(), "target and draft have one vocabulary");
    return {checked(p, "p"), checked(q, "q")};
}

inline void check_count(index_t n) {
    if (n < 1) refuse("n", n, "one token or more is drafted");
}

/// The number of tokens that can be drawn from a row.
[[nodiscard]] inline index_t support_of(std::span<double const> row) {
    index_t count = 0;
    for (double const x : row) count += x > 0 ? 1 : 0;
    return count;
}

}  // namespace MULTIDRAFT_NAMESPACE::analysis::detail
