// Thrust's inclusive_scan, sequential.
#pragma once

#include <cstdint>

#include "execution_policy.h"
#include "iterator/transform_iterator.h"

namespace thrust {

template <class F, class Iterator, class Out, class Add>
void inclusive_scan(sequential_policy, transform_iterator<F, Iterator> begin, transform_iterator<F, Iterator> end,
                    Out out, Add add) {
    std::int64_t const n = end.from - begin.from;
    for (std::int64_t k = 0; k < n; ++k) out[k] = k == 0 ? begin[k] : add(out[k - 1], begin[k]);
}

}  // namespace thrust
