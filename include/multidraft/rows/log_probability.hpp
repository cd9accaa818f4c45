// The logarithm of a token's probability under a row.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "multidraft/base/config.hpp"
#include "multidraft/base/exp_log.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/rows/distribution.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// log(row(x)), at most 0; minus infinity for a token without mass. O(1).
///
/// For rows of logits it is computed from the logit, so it is exact even where the probability would underflow. A row
/// whose mass is NaN gives minus infinity.
template <distribution D>
[[nodiscard]] MULTIDRAFT_HD double log_probability(D const& row, token_id x) {
    double result = 0;
    if constexpr (requires { fp::log(static_cast<double>(row.mass())) + row.log_weight(x); }) {
        auto const mass = static_cast<double>(row.mass());
        result = mass > 0 ? static_cast<double>(row.log_weight(x)) - fp::log(mass) : minus_infinity<double>;
    } else {
        auto const p = static_cast<double>(row(x));
        result = p > 0 ? fp::log(p) : minus_infinity<double>;
    }
    return result < 0 ? result : (result == result ? 0.0 : minus_infinity<double>);
}

}  // namespace MULTIDRAFT_NAMESPACE
