// The positive part of a difference: the values of residuals.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "multidraft/base/config.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// x+ = max(x, 0). NaN is kept, so that it shows in a sum.
template <class Real>
[[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD constexpr Real positive_part(Real x) noexcept {
    return x < 0 ? Real(0) : x;
}

}  // namespace MULTIDRAFT_NAMESPACE
