// Where a decreasing function passes through zero, in few evaluations.
#pragma once

#include "multidraft/core/config.hpp"
#include "multidraft/core/fma.hpp"

namespace multidraft::verify {

/// The point of [low, high] at which a decreasing function f is 0, within `slack` of the value 0, or as near as doubles
/// allow; the nearer end when f has one sign.
///
/// Chandrupatla 1997: inverse quadratic interpolation where three points make it safe, else bisection. Smooth functions
/// take 5 to 9 evaluations, none more than 100. The same bits on host and device if f has them. A NaN of f ends the
/// search at the better end.
template <class F>
[[nodiscard]] MULTIDRAFT_HD double decreasing_root(F const& f, double low, double high, double slack) {
    double b = low;
    double f_b = f(b);
    if (!(f_b > slack)) return low;
    double a = high;
    double f_a = f(a);
    if (!(f_a < -slack)) return high;
    double share = f_a / (f_a - f_b);  // of the way from a to b: at first where the chord passes
    for (int k = 0; k < 98; ++k) {
        double const t = a + product(share, b - a);
        if (t == a || t == b) break;
        double const f_t = f(t);
        if (f_t <= slack && f_t >= -slack) return t;
        // a becomes the new point, b the end on the other side of the root, c what is left.
        double c = a;
        double f_c = f_a;
        if ((f_t > 0) != (f_a > 0)) {
            c = b;
            f_c = f_b;
            b = a;
            f_b = f_a;
        }
        a = t;
        f_a = f_t;
        double const xi = (a - b) / (c - b);
        double const phi = (f_a - f_b) / (f_c - f_b);
        share = 0.5;
        if (product(phi, phi) < xi && product(1 - phi, 1 - phi) < 1 - xi) {
            double const first = product(f_a / (f_b - f_a), f_c / (f_b - f_c));
            double const second = product(product((c - a) / (b - a), f_a / (f_c - f_a)), f_b / (f_c - f_b));
            share = first + second;
            if (!(share > 0) || !(share < 1)) share = 0.5;
        }
    }
    double const size_a = f_a < 0 ? -f_a : f_a;
    double const size_b = f_b < 0 ? -f_b : f_b;
    return size_a < size_b ? a : b;
}

}  // namespace multidraft::verify
