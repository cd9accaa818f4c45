// Thrust's for_each, sequential.
#pragma once

#include "execution_policy.h"
#include "iterator/counting_iterator.h"

namespace thrust {

template <class T, class F>
void for_each(sequential_policy, counting_iterator<T> begin, counting_iterator<T> end, F function) {
    for (T k = begin.at; k < end.at; ++k) function(k);
}

}  // namespace thrust
