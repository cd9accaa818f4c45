// The limits of numeric types, and a tolerance, as constants: device code cannot call `std::numeric_limits`.
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

/// How far the sum of a row of probabilities of a type may be from 1: the effect of rounding, with a margin. This one
/// is for types of 16 bits.
template <class T>
inline constexpr double sum_tolerance = 2e-2;
template <>
inline constexpr double sum_tolerance<float> = 1e-4;
template <>
inline constexpr double sum_tolerance<double> = 1e-9;

}  // namespace MULTIDRAFT_NAMESPACE
