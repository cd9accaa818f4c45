// Thrust's stable_sort.
#pragma once

#include <algorithm>

#include "execution_policy.h"

namespace thrust {

template <class Iterator, class Less>
void stable_sort(sequential_policy, Iterator begin, Iterator end, Less less) {
    std::stable_sort(begin, end, less);
}

}  // namespace thrust
