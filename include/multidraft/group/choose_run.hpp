// The step of a search in the fixed order: which of some runs of a row a fraction of their total falls into.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "multidraft/base/config.hpp"
#include "multidraft/base/fma.hpp"

namespace MULTIDRAFT_NAMESPACE::detail {

/// The fraction in [0, 1) of a run that lies before t, where the sum before the run is `passed` and that of the run is
/// `size`.
[[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE double fraction_of_run(double t, double passed, double size) noexcept {
    double const u = (t - passed) / size;
    return u < 1 ? u : 0x1.fffffffffffffp-1;  // rounded up, or of a row with infinity or NaN
}

/// The run k, of `count` with sums `sum(k)`, into which the fraction u of their total falls: the first whose running
/// sum exceeds u * total. On return u is the fraction of that run which lies before the point. A fraction of 1 or more
/// falls into the last run with mass. Returns `none` when no run has mass.
///
/// The sums, floats or doubles, are added in double precision in index order. The fraction is taken of this total, not
/// of the separately rounded sum of the enclosing run, so every run keeps its share and can be reached. Every group
/// searches by this arithmetic, so all of them find the same entry. Each sum is evaluated twice.
template <class Sum>
[[nodiscard]] MULTIDRAFT_HD index_t choose_run(index_t count, Sum const& sum, double& u) {
    double total = 0;
    MULTIDRAFT_ROLL
    for (index_t k = 0; k < count; ++k) total += static_cast<double>(sum(k));
    double const t = fp::mul(u, total);

    double passed = 0;
    double before = 0;
    double size = 0;
    index_t found = none;
    MULTIDRAFT_ROLL
    for (index_t k = 0; k < count; ++k) {
        auto const here = static_cast<double>(sum(k));
        if (here > 0) {
            found = k;
            before = passed;
            size = here;
            if (passed + here > t) break;
        }
        passed += here;
    }
    if (found != none) u = fraction_of_run(t, before, size);
    return found;
}

/// The same over 16 runs in memory.
template <class Real>
[[nodiscard]] MULTIDRAFT_HD index_t choose_of_16(Real const* sums, double& u) {
    return choose_run(
        16, [sums](index_t k) { return sums[k]; }, u);
}

}  // namespace MULTIDRAFT_NAMESPACE::detail
