// The step of a search in the fixed order: which of 16 runs of a row the running sum passes a threshold in.
#pragma once

#include "multidraft/core/config.hpp"

namespace multidraft::detail {

/// The run k, of 16 with sums `sum(k)`, in which the running sum passes t; `t` becomes what is left of it. When
/// rounding lets it pass in none, the last run with mass; `none` when there is none. Every group searches by it, so all
/// of them find the same entry.
template <class Sum, class Real>
[[nodiscard]] MULTIDRAFT_HD index_t choose_run(Sum const& sum, Real& t) {
    Real passed = 0;
    Real left = 0;
    index_t found = none;

    MULTIDRAFT_ROLL
    for (index_t k = 0; k < 16; ++k) {
        Real const here = sum(k);
        if (here > 0) {
            found = k;
            left = t - passed;
            if (passed + here > t) break;
        }
        passed += here;
    }
    t = left;
    return found;
}

}  // namespace multidraft::detail
