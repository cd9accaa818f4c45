// The limits of numeric types as constants: device code may not call the members of `std::numeric_limits`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>

#include "multidraft/base/abi.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// Plus infinity of a floating-point type.
template <class Real>
inline constexpr Real infinity = std::numeric_limits<Real>::infinity();

/// Minus infinity of a floating-point type.
template <class Real>
inline constexpr Real minus_infinity = -infinity<Real>;

/// The largest finite number of a type.
template <class T>
inline constexpr T largest_number = std::numeric_limits<T>::max();

/// The distance from 1 to the next number above it.
template <class Real>
inline constexpr Real epsilon = std::numeric_limits<Real>::epsilon();

/// A quiet NaN.
template <class Real>
inline constexpr Real not_a_number = std::numeric_limits<Real>::quiet_NaN();

}  // namespace MULTIDRAFT_NAMESPACE
