// Fused multiply-add, written where it is meant, so that every compiler and device rounds the same way.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

#include "multidraft/base/config.hpp"

/// 1 where a fused multiply-add is one instruction of the machine compiled for.
#if MULTIDRAFT_ON_DEVICE || defined(__FMA__) || defined(__ARM_FEATURE_FMA) || defined(__FP_FAST_FMAF) || \
    (defined(_MSC_VER) && defined(__AVX2__))
#define MULTIDRAFT_FMA 1
#else
#define MULTIDRAFT_FMA 0
#endif

namespace MULTIDRAFT_NAMESPACE {

/// Whether `fp::fma` rounds once. Without it (plain x86-64: `std::fma` is a slow library call there) results are as
/// accurate and just as lossless, but not bit for bit those of other backends. A token whose acceptance depends on the
/// last bit may then be decided differently.
inline constexpr bool has_fma = MULTIDRAFT_FMA != 0;

// Compilers contract a * b + c into one rounding wherever they see it, also after inlining, and no two compilers
// contract the same expressions. So a product that feeds a sum is written with `fp::fma`, or with `fp::mul` where it
// must not be contracted. docs/floating_point.md lists the compiler flags under which this holds.

/// Arithmetic that rounds the same way everywhere.
namespace fp {

/// a * b + c, rounded once where `has_fma`; twice elsewhere.
[[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE float fma(float a, float b, float c) noexcept {
#if MULTIDRAFT_ON_DEVICE
    return ::fmaf(a, b, c);
#elif MULTIDRAFT_FMA && (defined(__GNUC__) || defined(__clang__))
    return __builtin_fmaf(a, b, c);
#elif MULTIDRAFT_FMA
    return std::fma(a, b, c);
#else
#if defined(__clang__)
#pragma clang fp contract(off)
#endif
    return a * b + c;
#endif
}

/// The same in double precision.
[[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE double fma(double a, double b, double c) noexcept {
#if MULTIDRAFT_ON_DEVICE
    return ::fma(a, b, c);
#elif MULTIDRAFT_FMA && (defined(__GNUC__) || defined(__clang__))
    return __builtin_fma(a, b, c);
#elif MULTIDRAFT_FMA
    return std::fma(a, b, c);
#else
#if defined(__clang__)
#pragma clang fp contract(off)
#endif
    return a * b + c;
#endif
}

}  // namespace fp

namespace detail {

/// -0, hidden from clang's optimiser. It would simplify a * b + -0 to a plain product and, under -ffp-contract=fast,
/// which no pragma overrides, contract that with the sum that follows. No instruction is emitted, and loops still
/// vectorise.
template <class Real>
[[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE Real minus_zero() noexcept {
    Real zero = Real(-0.0);
#if defined(__clang__) && defined(__HIP_DEVICE_COMPILE__)
    asm("" : "+v"(zero));
#elif defined(__clang__) && (defined(__x86_64__) || defined(__i386__))
    asm("" : "+x"(zero));
#elif defined(__clang__) && defined(__aarch64__)
    asm("" : "+w"(zero));
#endif
    return zero;
}

}  // namespace detail

namespace fp {

/// a * b, rounded, and never contracted with a sum that follows. As fast as a product.
[[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE float mul(float a, float b) noexcept {
#if defined(__CUDA_ARCH__) && defined(__clang__)
    float result = 0;  // clang turns the intrinsic into a plain product
    asm("mul.rn.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
    return result;
#elif defined(__CUDA_ARCH__)
    return __fmul_rn(a, b);
#else
#if defined(__clang__)
#pragma clang fp contract(off)
#endif
    if constexpr (has_fma) return fma(a, b, detail::minus_zero<float>());  // changes no value, not even that of -0
    return a * b;
#endif
}

/// The same in double precision.
[[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE double mul(double a, double b) noexcept {
#if defined(__CUDA_ARCH__) && defined(__clang__)
    double result = 0;
    asm("mul.rn.f64 %0, %1, %2;" : "=d"(result) : "d"(a), "d"(b));
    return result;
#elif defined(__CUDA_ARCH__)
    return __dmul_rn(a, b);
#else
#if defined(__clang__)
#pragma clang fp contract(off)
#endif
    if constexpr (has_fma) return fma(a, b, detail::minus_zero<double>());
    return a * b;
#endif
}

/// a / b, rounded to the nearest, also where nvcc makes `/` an approximation (-use_fast_math, -prec-div=false).
[[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE float div(float a, float b) noexcept {
#if defined(__CUDA_ARCH__)
    return __fdiv_rn(a, b);
#else
    return a / b;
#endif
}

/// The same in double precision.
[[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE double div(double a, double b) noexcept {
#if defined(__CUDA_ARCH__)
    return __ddiv_rn(a, b);
#else
    return a / b;
#endif
}

}  // namespace fp

}  // namespace MULTIDRAFT_NAMESPACE
