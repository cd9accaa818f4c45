// Whether the arithmetic of this build and thread is that of IEEE 754: a run-time test for flags that no macro reveals.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/fma.hpp"
#include "multidraft/base/numbers.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// How floating-point arithmetic can differ from what the library needs; see docs/floating_point.md.
enum class arithmetic_fault : std::int32_t {
    nothing = 0,
    rounding,    ///< sums are not rounded to the nearest
    subnormals,  ///< numbers below 2^-126 are read as 0 or flushed to 0
    quotients,   ///< `fp::div` is not rounded to the nearest
    products,    ///< `fp::mul` is contracted with the sum that follows
    fused,       ///< `fp::fma` does not round once, though `has_fma`
    order,       ///< sums are reordered
    not_a_number,
    signed_zeros,
};

namespace detail {

/// A number that the compiler cannot fold: arithmetic with it happens at run time.
[[nodiscard]] MULTIDRAFT_HD inline float unknown(float x) noexcept {
    float volatile hidden = x;
    return hidden;
}

}  // namespace detail

/// Checks the arithmetic of this thread, as this file was compiled. Returns the first fault found, if any. A few dozen
/// operations.
[[nodiscard]] MULTIDRAFT_HD inline arithmetic_fault check_arithmetic() noexcept {
    using detail::unknown;
    float const one = unknown(1.0F);
    if (!(one + unknown(0x1p-24F) == 1.0F && one + unknown(0x1.8p-24F) == 1.0F + 0x1p-23F))
        return arithmetic_fault::rounding;
    float const least = unknown(0x1p-126F);
    float const below = least * unknown(0.5F);
    if (!(below > 0.0F && below + below == least)) return arithmetic_fault::subnormals;
    // Several numerators over one denominator: a compiler that may reassociate multiplies by the inverse instead.
    constexpr float numerators[] = {1.0F, 3.0F, 5.0F, 7.0F, 9.0F, 11.0F, 13.0F, 23.0F};
    constexpr float quotients[] = {1.0F / 49.0F, 3.0F / 49.0F,  5.0F / 49.0F,  7.0F / 49.0F,
                                   9.0F / 49.0F, 11.0F / 49.0F, 13.0F / 49.0F, 23.0F / 49.0F};
    float const denominator = unknown(49.0F);
    for (int k = 0; k < 8; ++k)
        if (fp::div(unknown(numerators[k]), denominator) != quotients[k]) return arithmetic_fault::quotients;
    // (1 + 2^-12)^2 = 1 + 2^-11 + 2^-24, of which the last term is lost when the product is rounded.
    float const a = unknown(1.0F + 0x1p-12F);
    if (fp::mul(a, a) - one != 0x1p-11F) return arithmetic_fault::products;
    if (has_fma && fp::fma(a, a, -one) != 0x1p-11F + 0x1p-24F) return arithmetic_fault::fused;
    float const large = unknown(0x1p30F);
    if ((large + one) - large != 0.0F) return arithmetic_fault::order;
    float const nan = unknown(not_a_number<float>);
    if (nan == nan || nan > one || !(nan != nan)) return arithmetic_fault::not_a_number;
    if (__builtin_bit_cast(std::uint32_t, unknown(-0.0F) + 0.0F) != 0) return arithmetic_fault::signed_zeros;
    return arithmetic_fault::nothing;
}

/// A description of the fault.
[[nodiscard]] constexpr char const* text_of(arithmetic_fault fault) noexcept {
    switch (fault) {
        case arithmetic_fault::nothing:
            return "nothing";
        case arithmetic_fault::rounding:
            return "sums are not rounded to the nearest (a rounding mode of the thread)";
        case arithmetic_fault::subnormals:
            return "numbers below 2^-126 are flushed to zero (nvcc -use_fast_math or -ftz=true; a mode of the thread "
                   "that "
                   "a library built with -ffast-math may have set)";
        case arithmetic_fault::quotients:
            return "quotients are approximate (-freciprocal-math)";
        case arithmetic_fault::products:
            return "rounded products are contracted with sums";
        case arithmetic_fault::fused:
            return "fused multiply-adds are rounded twice";
        case arithmetic_fault::order:
            return "sums are reordered (-fassociative-math)";
        case arithmetic_fault::not_a_number:
            return "NaN is not told from numbers (-ffinite-math-only)";
        case arithmetic_fault::signed_zeros:
            return "minus zero stays minus zero in a sum with zero (-fno-signed-zeros)";
    }
    return "unknown";
}

/// Throws `invalid_input` when `check_arithmetic` finds a fault.
inline void validate_arithmetic() {
    arithmetic_fault const fault = check_arithmetic();
    if (fault != arithmetic_fault::nothing)
        refuse("arithmetic", static_cast<std::int32_t>(fault),
               std::string(text_of(fault)) + ": see docs/floating_point.md");
}

}  // namespace MULTIDRAFT_NAMESPACE
