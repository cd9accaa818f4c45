// The root of a decreasing function, in few evaluations.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "multidraft/base/config.hpp"
#include "multidraft/base/fma.hpp"

namespace MULTIDRAFT_NAMESPACE::verify::detail {

/// The point of [low, high] at which a decreasing function f is 0, within `slack` of that value or as near as doubles
/// allow, given its values at both ends. If f has the same sign at both ends, the end with the smaller magnitude.
///
/// Regula falsi after Anderson and Bjorck [AndersonBjorck], with occasional bisections, at most 80 evaluations. The
/// same bits on host and device if f has them. NaN counts as below 0.
template <class F>
[[nodiscard]] MULTIDRAFT_HD double decreasing_root(F const& f, double low, double f_low, double high, double f_high,
                                                   double slack) {
    if (!(f_low > 0)) return low;
    if (!(f_high < 0)) return high;
    int side = 0;  // the end that moved last
    for (int k = 0; k < 80; ++k) {
        double t = low + fp::mul(high - low, f_low / (f_low - f_high));
        if (k % 8 == 7 || !(t > low) || !(t < high)) t = low + fp::mul(high - low, 0.5);
        if (!(t > low) || !(t < high)) break;
        double const value = f(t);
        if (value <= slack && value >= -slack) return t;
        // The value at an end that stays is scaled down.
        if (value > 0) {
            if (side > 0) f_high = fp::mul(f_high, value < f_low ? 1 - value / f_low : 0.5);
            low = t;
            f_low = value;
            side = 1;
        } else {
            if (side < 0) f_low = fp::mul(f_low, value > f_high ? 1 - value / f_high : 0.5);
            high = t;
            f_high = value;
            side = -1;
        }
    }
    return f_low < -f_high ? low : high;
}

/// The same, with two more evaluations for the ends.
template <class F>
[[nodiscard]] MULTIDRAFT_HD double decreasing_root(F const& f, double low, double high, double slack) {
    return decreasing_root(f, low, f(low), high, f(high), slack);
}

}  // namespace MULTIDRAFT_NAMESPACE::verify::detail
