// Compiler-dependent macros, and the integer types of the library.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "multidraft/base/abi.hpp"

// Under these flags NaN is not detected, sums are reordered, divisions round differently and the sign of zero is lost:
// rows that are not distributions would yield tokens, and no two builds would agree. The effect of each flag, and how
// to compile one file of a program without them: docs/floating_point.md.
#if defined(__FAST_MATH__) || defined(_M_FP_FAST)
#error "multidraft: not with -ffast-math, -Ofast or /fp:fast (see docs/floating_point.md)"
#elif defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__
#error "multidraft: not with -ffinite-math-only (see docs/floating_point.md)"
#elif defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__) || defined(__NO_SIGNED_ZEROS__)
#error \
    "multidraft: not with -funsafe-math-optimizations, -fassociative-math, -freciprocal-math or -fno-signed-zeros (see docs/floating_point.md)"
#endif

#if defined(__GNUC__) && !defined(__cpp_exceptions) && !defined(__EXCEPTIONS) && !defined(__CUDA_ARCH__) && \
    !defined(__HIP_DEVICE_COMPILE__)
#error "multidraft: not with -fno-exceptions: bad input is reported by exceptions; the C library returns statuses"
#endif

// Names of functions here, and of members of every group.
#if defined(min) || defined(max)
#error "multidraft: min and max are macros: define NOMINMAX before windows.h is included"
#endif

/// Marks a function that host and device may both call. Empty for a plain C++ compiler.
#if defined(__CUDACC__) || defined(__HIPCC__)
#define MULTIDRAFT_HD __host__ __device__
#else
#define MULTIDRAFT_HD
#endif

/// Marks a deduction guide: clang as a device compiler (HIP, CUDA) takes one for a function of the host.
#if defined(__clang__) && (defined(__HIP__) || defined(__CUDA__))
#define MULTIDRAFT_GUIDE MULTIDRAFT_HD
#else
#define MULTIDRAFT_GUIDE
#endif

/// True while device code is being generated: no exceptions, no host library there.
#if defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__) || defined(__SYCL_DEVICE_ONLY__)
#define MULTIDRAFT_ON_DEVICE 1
#else
#define MULTIDRAFT_ON_DEVICE 0
#endif

/// Forced inlining in optimised code: row loops vectorise only when the per-token function is inlined into them.
#if defined(__CUDACC__)
#define MULTIDRAFT_INLINE __forceinline__
#elif (defined(__GNUC__) || defined(__clang__)) && defined(__OPTIMIZE__)
#define MULTIDRAFT_INLINE inline __attribute__((always_inline))
#elif defined(_MSC_VER)
#define MULTIDRAFT_INLINE __forceinline
#else
#define MULTIDRAFT_INLINE inline
#endif

/// The same for a lambda, written after its parameters: `[=](index_t i) MULTIDRAFT_INLINE_LAMBDA { .. }`.
#if (defined(__GNUC__) || defined(__clang__)) && (defined(__OPTIMIZE__) || defined(__CUDACC__))
#define MULTIDRAFT_INLINE_LAMBDA __attribute__((always_inline))
#else
#define MULTIDRAFT_INLINE_LAMBDA
#endif

/// Functions that report errors: compiled for size, apart from the code that calls them.
#if defined(__GNUC__)
#define MULTIDRAFT_COLD __attribute__((cold, noinline))
#else
#define MULTIDRAFT_COLD
#endif

/// Written before a loop that is short, or whose body is long: a device compiler would unroll it and then run out of
/// registers.
#if defined(__CUDA_ARCH__)
#define MULTIDRAFT_ROLL _Pragma("unroll 1")
#else
#define MULTIDRAFT_ROLL
#endif

/// Passes over a row, which are not inlined. On a host their loops are then vectorised whatever surrounds the call;
/// with a copy at every call on a device, a verifier takes nvcc half a minute and exceeds the register limit.
#if defined(__CUDACC__)
#define MULTIDRAFT_OUTLINE __noinline__
#elif defined(__GNUC__) || defined(__clang__)
#define MULTIDRAFT_OUTLINE __attribute__((noinline))
#elif defined(_MSC_VER)
#define MULTIDRAFT_OUTLINE __declspec(noinline)
#else
#define MULTIDRAFT_OUTLINE
#endif

/// Builtins that a device knows too, unlike `std::assume_aligned` and `std::memcpy`. MSVC has neither.
#if defined(_MSC_VER) && !defined(__clang__)
#include <cstring>
#define MULTIDRAFT_ASSUME_ALIGNED(pointer, bytes) (pointer)
#define MULTIDRAFT_COPY_BYTES std::memcpy
#else
#define MULTIDRAFT_ASSUME_ALIGNED __builtin_assume_aligned
#define MULTIDRAFT_COPY_BYTES __builtin_memcpy
#endif

namespace MULTIDRAFT_NAMESPACE {

/// A token of the vocabulary, in [0, V).
using token_id = std::int32_t;

/// A node of a draft tree; node 0 is the root, the last token of the context.
using node_id = std::int32_t;

/// An index into a row of V entries. Offsets between rows are 64 bits wide.
using index_t = std::int32_t;

/// The most entries that a row may have, 2^31 - 4097: loops over it go by chunks of 4096.
inline constexpr index_t max_row_size = 0x7fffffff - 4096;

/// "No token", "no node": what a search that finds nothing returns.
inline constexpr std::int32_t none = -1;

}  // namespace MULTIDRAFT_NAMESPACE
