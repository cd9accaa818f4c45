// Exponential and logarithm in single precision: the same bits from every compiler and on every device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "multidraft/base/blend.hpp"
#include "multidraft/base/config.hpp"
#include "multidraft/base/fma.hpp"

namespace MULTIDRAFT_NAMESPACE {

namespace detail {

[[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE constexpr std::int32_t bits_of(float x) noexcept {
    return __builtin_bit_cast(std::int32_t, x);
}

[[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE constexpr float float_of(std::int32_t bits) noexcept {
    return __builtin_bit_cast(float, bits);
}

/// 2^n as a float, for n in [-126, 127].
[[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE constexpr float power_of_two(std::int32_t n) noexcept {
    return float_of((n + 127) << 23);
}

inline constexpr std::int32_t infinity_bits = 0x7f800000;
inline constexpr std::int32_t nan_bits = 0x7fc00000;

// The parts of ln 2: the first has 12 significant bits, so that its product with an exponent is exact without FMA too.
inline constexpr float ln2_high = 0x1.62ep-1F;
inline constexpr float ln2_low = 0x1.0bfbe8p-15F;

/// e ln 2 + ln(1 + f) for f in [-1/4, 1/2]. Minimax polynomial, relative error 2^-26.6 before rounding.
[[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE float scaled_log1p(float e, float f) noexcept {
    float r = -0x1.7141cep-5F;
    r = fp::fma(r, f, 0x1.ac9218p-4F);
    r = fp::fma(r, f, -0x1.0d8b02p-3F);
    r = fp::fma(r, f, 0x1.28848ap-3F);
    r = fp::fma(r, f, -0x1.54efd4p-3F);
    r = fp::fma(r, f, 0x1.9969aep-3F);
    r = fp::fma(r, f, -0x1.00004p-2F);
    r = fp::fma(r, f, 0x1.5555a4p-2F);
    r = fp::fma(r, f, -0.5F);
    float const tail = fp::fma(e, ln2_low, fp::mul(fp::mul(r, f), f));
    return fp::fma(e, ln2_high, f + tail);
}

}  // namespace detail

namespace fp {

/// exp(x), error below 0.9 ulp (1.2 without FMA) over all floats, subnormal results included.
///
/// exp(-inf) = 0, exp(x) = +inf above 88.72, NaN gives the NaN 0x7fc00000. No branch, no table: loops over it vectorise
/// at -O3 with g++ and clang.
[[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE float exp(float x) noexcept {
    std::int32_t const bits = detail::bits_of(x);
    std::int32_t const magnitude = bits & 0x7fffffff;
    std::int32_t const limit = 0x42d20000;  // 105: both ends are past overflow and underflow
    float const y = detail::float_of((magnitude < limit ? magnitude : limit) | (bits ^ magnitude));

    // x = n ln 2 + r, |r| <= ln 2 / 2. Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits.
    float const shifter = 0x1.8p23F;
    float const shifted = fp::fma(y, 0x1.715476p0F, shifter);
    std::int32_t const n = detail::bits_of(shifted) - 0x4b400000;
    float const k = shifted - shifter;
    float const r = fp::fma(k, -detail::ln2_low, fp::fma(k, -detail::ln2_high, y));

    float q = 0x1.6ac74ap-10F;
    q = fp::fma(q, r, 0x1.123dep-7F);
    q = fp::fma(q, r, 0x1.555858p-5F);
    q = fp::fma(q, r, 0x1.55548cp-3F);
    q = fp::fma(q, r, 0x1.fffffcp-2F);
    float const p = fp::fma(fp::fma(q, r, 1.0F), r, 1.0F);

    // Two factors, because 2^n itself may be subnormal or too large; only the last product rounds.
    std::int32_t const half = n >> 1;
    float const result = fp::mul(p * detail::power_of_two(half), detail::power_of_two(n - half));
    return detail::float_of(
        detail::blend(magnitude > detail::infinity_bits, detail::nan_bits, detail::bits_of(result)));
}

/// ln(x), error below 1 ulp (1.1 without FMA) over all floats, subnormal arguments included.
///
/// ln(0) = -inf, ln(+inf) = +inf; negative numbers and NaN give the NaN 0x7fc00000. No branch, no table: loops over it
/// vectorise.
[[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE float log(float x) noexcept {
    std::int32_t const bits = detail::bits_of(x);
    std::int32_t const magnitude = bits & 0x7fffffff;

    // x = 2^e (1 + f), 1 + f in [3/4, 3/2): no cancellation near x = 1.
    bool const is_small = bits < 0x00800000;
    std::int32_t const normal = detail::blend(is_small, detail::bits_of(x * 0x1p23F), bits);
    auto const above = static_cast<std::int32_t>(static_cast<std::uint32_t>(normal) - 0x3f400000U);  // 3/4
    std::int32_t const e = above >> 23;
    float const f = detail::float_of(0x3f400000 + (above & 0x007fffff)) - 1.0F;
    float const result = detail::scaled_log1p(static_cast<float>(e - (is_small ? 23 : 0)), f);

    // Without sign and below infinity the pattern is a number: 0 < bits < infinity_bits.
    std::int32_t const zero = detail::blend(magnitude == 0, -0x00800000, detail::nan_bits);  // the pattern of -inf
    std::int32_t const other = detail::blend(bits == detail::infinity_bits, bits, zero);
    bool const number = static_cast<std::uint32_t>(bits) - 1U < static_cast<std::uint32_t>(detail::infinity_bits) - 1U;
    return detail::float_of(detail::blend(number, detail::bits_of(result), other));
}

}  // namespace fp

namespace detail {

/// The larger of two numbers, `bound` not NaN; NaN if x is NaN.
[[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE float at_least(float x, float bound) noexcept {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    float result;  // one instruction, which no intrinsic gives
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(x), "f"(bound));
    return result;
#else
    return x < bound ? bound : x;
#endif
}

}  // namespace detail

/// exp(scale * x) for x <= 0 and a fixed scale > 0: the weight of a logit that lies -x below the largest.
///
/// Half the instructions of `fp::exp`, which dominates the cost of a row of logits: there is no sign and no overflow to
/// handle, and 2^(x * rate) is computed from x itself, so that the product is not rounded first. 1 at x = 0; 0 where
/// the power is below 2^-99.5, including x = minus infinity, so that a token's share of a row is a normal number (for
/// up to 2^26 tokens). NaN stays NaN. The error is below 2.1 ulp of 2^(x * rate), without FMA x * rate more. The rate
/// is log2(e) * scale, rounded and kept between 2^-120 and 2^127. No branch, no table: loops over it vectorise.
template <class Real>
class exp_nonpositive;

/// In floats.
template <>
class exp_nonpositive<float> {
public:
    /// `scale` is positive and finite.
    MULTIDRAFT_HD explicit exp_nonpositive(float scale) noexcept {
        float const rate = scale * 0x1.715476p0F;
        rate_ = rate < 0x1p127F ? rate : 0x1p127F;
        rate_ = rate_ > 0x1p-120F ? rate_ : 0x1p-120F;
        least_ = fp::div(-static_cast<float>(floor), rate_);
    }

    /// exp(scale * x) for x <= 0, NaN for NaN.
    [[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE float operator()(float x) const noexcept {
        // x * rate = n + r, |r| <= 1/2. Adding 1.5 * 2^23 + 100 rounds to an integer and leaves it, with that bias, in
        // the low bits: read as an exponent they give 2^(n - 27), and 0 for the smallest n, -100.
        float const d = detail::at_least(x, least_);
        float const shifter = 0x1.8p23F + static_cast<float>(floor);
        float const shifted = fp::fma(d, rate_, shifter);
        float const n = shifted - shifter;
        float const r = fp::fma(d, rate_, -n);

        // 2^(r + 27): minimax polynomial with 2^0 = 1, relative error 2^-23.4 before rounding.
        float p = 0x1.5bbf18p17F;
        p = fp::fma(p, r, 0x1.3ce458p20F);
        p = fp::fma(p, r, 0x1.c6b75p22F);
        p = fp::fma(p, r, 0x1.ebf9d8p24F);
        p = fp::fma(p, r, 0x1.62e42ap26F);
        p = fp::fma(p, r, 0x1p27F);
        auto const exponent = static_cast<std::uint32_t>(detail::bits_of(shifted)) << 23;
        return fp::mul(p, detail::float_of(static_cast<std::int32_t>(exponent)));
    }

private:
    static constexpr int floor = 100;
    float rate_;
    float least_;
};

/// The same in double precision by the host's library, for references: 0 below 2^-900. No promise of equal bits.
template <>
class exp_nonpositive<double> {
public:
    /// `scale` is positive and finite.
    MULTIDRAFT_HD explicit exp_nonpositive(double scale) noexcept : scale_(scale) {}
    /// exp(scale * x) for x <= 0, NaN for NaN.
    [[nodiscard]] MULTIDRAFT_HD double operator()(double x) const noexcept {
        double const result = ::exp(x * scale_);
        return result < 0x1p-900 ? 0.0 : result;
    }

private:
    double scale_;
};

namespace fp {

/// exp(x) in double precision: the host's library, for references. No promise of equal bits.
[[nodiscard]] MULTIDRAFT_HD inline double exp(double x) noexcept { return ::exp(x); }

/// ln(x) in double precision: the host's library, for references. No promise of equal bits.
[[nodiscard]] MULTIDRAFT_HD inline double log(double x) noexcept { return ::log(x); }

}  // namespace fp

/// A draw from the exponential distribution with mean 1: -ln(1 - v) for v = (word + 1/2) / 2^32, error below 1.5 ulp.
///
/// Every one of the 2^32 words gives a finite number above 0, from 1.2e-10 to 22.9; small draws, which decide a race,
/// keep their full relative accuracy. This is the noise of exponential races; -ln of it is the noise of Gumbel-max. No
/// branch: loops over it vectorise.
[[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE float exponential_variate(std::uint32_t word) noexcept {
    // 1 - v = (2^32 - word - 1/2) / 2^32 = 2^(e - 32) (1 + f). Halves of 16 bits make every step but the last one of f
    // exact. They become floats as the low bits of 2^23 and 2^22 (not every vector unit converts unsigned integers),
    // and are complemented as floats (g++'s AVX-512 `~` waits for the register's old value: a loop 4 times slower).
    auto const bits = static_cast<std::int32_t>(word);
    float const high = (0x1p23F + 65535.0F) - detail::float_of(0x4b000000 | ((bits >> 16) & 0xffff));
    float const low = (0x1p22F + 65536.0F) - detail::float_of(0x4a800001 | ((bits & 0xffff) << 1));
    std::int32_t const above = detail::bits_of(fp::fma(high, 65536.0F, low)) - 0x3f400000;
    std::int32_t const e = above >> 23;
    float const scale = detail::power_of_two(-e);
    float const f = fp::fma(low, scale, fp::fma(high, 65536.0F * scale, -1.0F));
    return -detail::scaled_log1p(static_cast<float>(e - 32), f);
}

}  // namespace MULTIDRAFT_NAMESPACE
