// A choice between two values that compilers keep free of branches.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include "multidraft/core/config.hpp"

namespace MULTIDRAFT_NAMESPACE::detail {

/// condition ? a : b for integers, by masks on the host. From `?:` g++ moves the computation of b behind a branch, and
/// a branch around float arithmetic keeps a loop over tokens from being vectorised (unless -fno-trapping-math, which a
/// header cannot set). For the same reason conditions compare bit patterns rather than floats.
template <class T>
[[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE constexpr T blend(bool condition, T a,
                                                                std::type_identity_t<T> b) noexcept {
    static_assert(std::is_integral_v<T> && sizeof(T) >= sizeof(int));
#if MULTIDRAFT_ON_DEVICE
    return condition ? a : b;
#else
    return b ^ ((a ^ b) & (T{0} - static_cast<T>(condition)));
#endif
}

}  // namespace MULTIDRAFT_NAMESPACE::detail
