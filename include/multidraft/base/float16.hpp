// The two 16-bit formats that engines keep logits in, IEEE binary16 and bfloat16, and how rows of any type are read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "multidraft/base/blend.hpp"
#include "multidraft/base/config.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// IEEE 754 binary16: 1 sign, 5 exponent and 10 fraction bits. A storage format: convert, then compute.
///
/// Two bytes, trivially copyable, laid out as `__half`, `_Float16` and torch.float16 are, so that a row of those may be
/// read through a pointer to this type. Conversions are integer code without branches: loops over them vectorise, and
/// they give the same bits everywhere.
struct float16 {
    std::uint16_t bits = 0;

    float16() = default;

    /// The nearest value, ties to even; above 65519.99 infinity. A NaN keeps its sign and upper payload.
    MULTIDRAFT_HD MULTIDRAFT_INLINE explicit constexpr float16(float x) noexcept : bits(round(x)) {}

    /// The value whose pattern is `bits`.
    [[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE static constexpr float16 from_bits(std::uint16_t bits) noexcept {
        float16 result{};
        result.bits = bits;
        return result;
    }

    /// Exact, subnormals, infinities and NaN payloads included; a device may make a quiet NaN of a signalling one.
    [[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE explicit constexpr operator float() const noexcept {
#if defined(__CUDA_ARCH__)
        // Not std::is_constant_evaluated: nvcc without --expt-relaxed-constexpr treats that as a host function and
        // deletes the code around it.
        if (!__builtin_is_constant_evaluated()) {  // one instruction, and exact too
            float result = 0;
            asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(bits));
            return result;
        }
#endif
        std::uint32_t const sign = (bits & 0x8000U) << 16;
        std::uint32_t const moved = (bits & 0x7fffU) << 13;
        // A subnormal's fraction is placed below 2^-14, a normal number, which is then subtracted.
        float const subnormal =
            __builtin_bit_cast(float, moved + 0x38800000U) - __builtin_bit_cast(float, std::uint32_t{0x38800000U});
        std::uint32_t const normal = moved + 0x38000000U;   // the exponent's bias: 127 instead of 15
        std::uint32_t const special = moved + 0x70000000U;  // the largest exponent stays the largest
        std::uint32_t const finite =
            detail::blend(moved < 0x00800000U, __builtin_bit_cast(std::uint32_t, subnormal), normal);
        return __builtin_bit_cast(float, sign | detail::blend(moved < 0x0f800000U, finite, special));
    }

private:
    [[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE static constexpr std::uint16_t round(float x) noexcept {
        std::uint32_t const pattern = __builtin_bit_cast(std::uint32_t, x);
        std::uint32_t const magnitude = pattern & 0x7fffffffU;
        std::uint32_t const normal = (magnitude - 0x38000000U + 0xfffU + ((magnitude >> 13) & 1U)) >> 13;
        // Below 2^-14: the last bit of 1/2 is worth one subnormal step, so the sum rounds to one. Others add 0.
        float const clamped = __builtin_bit_cast(float, detail::blend(magnitude < 0x38800000U, magnitude, 0U));
        std::uint32_t const subnormal = __builtin_bit_cast(std::uint32_t, clamped + 0.5F) - 0x3f000000U;
        std::uint32_t const payload = (magnitude >> 13) & 0x3ffU;
        std::uint32_t const nan = 0x7c00U | detail::blend(payload == 0, 0x200U, payload);
        std::uint32_t const special = detail::blend(magnitude > 0x7f800000U, nan, 0x7c00U);
        std::uint32_t const finite = detail::blend(magnitude < 0x38800000U, subnormal, normal);
        return static_cast<std::uint16_t>(((pattern >> 16) & 0x8000U) |
                                          detail::blend(magnitude < 0x47800000U, finite, special));
    }
};

/// bfloat16: the upper half of a float, 8 exponent and 7 fraction bits. A storage format: convert, then compute.
///
/// Two bytes, trivially copyable, laid out as `__nv_bfloat16` and torch.bfloat16 are.
struct bfloat16 {
    std::uint16_t bits = 0;

    bfloat16() = default;

    /// The nearest value, ties to even. A NaN keeps its sign and upper payload.
    MULTIDRAFT_HD MULTIDRAFT_INLINE explicit constexpr bfloat16(float x) noexcept : bits(round(x)) {}

    /// The value whose pattern is `bits`.
    [[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE static constexpr bfloat16 from_bits(std::uint16_t bits) noexcept {
        bfloat16 result{};
        result.bits = bits;
        return result;
    }

    /// Exact.
    [[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE explicit constexpr operator float() const noexcept {
        return __builtin_bit_cast(float, static_cast<std::uint32_t>(bits) << 16);
    }

private:
    [[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE static constexpr std::uint16_t round(float x) noexcept {
        std::uint32_t const pattern = __builtin_bit_cast(std::uint32_t, x);
        std::uint32_t const rounded = (pattern + 0x7fffU + ((pattern >> 16) & 1U)) >> 16;
        std::uint32_t const upper = pattern >> 16;
        std::uint32_t const nan = upper | detail::blend((upper & 0x7fU) == 0, 0x40U, 0U);
        return static_cast<std::uint16_t>(detail::blend((pattern & 0x7fffffffU) > 0x7f800000U, nan, rounded));
    }
};

static_assert(sizeof(float16) == 2 && std::is_trivially_copyable_v<float16>);
static_assert(sizeof(bfloat16) == 2 && std::is_trivially_copyable_v<bfloat16>);

/// A row of binary16 that an engine stores as 16-bit words. Nothing is copied.
[[nodiscard]] MULTIDRAFT_HD inline float16 const* as_float16(std::uint16_t const* words) noexcept {
    return reinterpret_cast<float16 const*>(words);
}
/// The same for bfloat16.
[[nodiscard]] MULTIDRAFT_HD inline bfloat16 const* as_bfloat16(std::uint16_t const* words) noexcept {
    return reinterpret_cast<bfloat16 const*>(words);
}

/// An element of a row as a number to compute with: float for `float16`, `bfloat16`, `_Float16`, `__bf16` and float,
/// double for double. Exact.
///
/// A row of an engine's own type is read by overloading this function in that type's namespace.
[[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE constexpr float to_real(float16 x) noexcept {
    return static_cast<float>(x);
}
[[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE constexpr float to_real(bfloat16 x) noexcept {
    return static_cast<float>(x);
}
// g++ 12 for ARM says that it has `_Float16`, but has it in C only.
#if defined(__FLT16_MANT_DIG__) && !defined(__CUDACC__) && \
    (defined(__clang__) || __GNUC__ >= 13 || defined(__x86_64__) || defined(__i386__))
#define MULTIDRAFT_NATIVE_FLOAT16 1
// The compiler's own type. By its bits: without instructions for it a conversion is a call of a function.
[[nodiscard]] MULTIDRAFT_INLINE constexpr float to_real(_Float16 x) noexcept {
    return to_real(float16::from_bits(__builtin_bit_cast(std::uint16_t, x)));
}
#endif
#if (defined(__BFLT16_MANT_DIG__) || (defined(__x86_64__) && defined(__clang_major__) && __clang_major__ >= 18)) && \
    !defined(__CUDACC__)
[[nodiscard]] MULTIDRAFT_INLINE constexpr float to_real(__bf16 x) noexcept {
    return to_real(bfloat16::from_bits(__builtin_bit_cast(std::uint16_t, x)));
}
#endif
[[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE constexpr float to_real(float x) noexcept { return x; }
[[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE constexpr double to_real(double x) noexcept { return x; }

/// The type that `to_real` returns for an element of type T, in which a row of T is computed.
template <class T>
using real_of = std::remove_cvref_t<decltype(to_real(std::declval<T>()))>;

}  // namespace MULTIDRAFT_NAMESPACE
