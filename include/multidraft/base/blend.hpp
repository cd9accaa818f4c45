// A choice between two values that compilers keep free of branches.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "multidraft/base/config.hpp"

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

/// condition ? x : 0 for floats and doubles, on their bits.
template <class Real>
[[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE constexpr Real blend_with_zero(bool condition, Real x) noexcept {
    using bits = std::conditional_t<sizeof(Real) == sizeof(std::int32_t), std::int32_t, std::int64_t>;
    return __builtin_bit_cast(Real, blend(condition, __builtin_bit_cast(bits, x), bits{0}));
}

}  // namespace MULTIDRAFT_NAMESPACE::detail

namespace MULTIDRAFT_NAMESPACE {

/// x+ = max(x, 0). NaN is kept, so that it shows in a sum.
template <class Real>
[[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD constexpr Real positive_part(Real x) noexcept {
    return x < 0 ? Real(0) : x;
}

}  // namespace MULTIDRAFT_NAMESPACE
