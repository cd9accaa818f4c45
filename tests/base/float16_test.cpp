// Every pattern of the two 16-bit formats, and rounding to them against an independent search.
#include "multidraft/base/float16.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace float16_test {
namespace {

using multidraft::bfloat16;
using multidraft::float16;
using multidraft::real_of;
using multidraft::to_real;

/// The value of a pattern, from the definition of the format.
long double value(std::uint16_t bits, int exponent_bits) {
    int const fraction_bits = 15 - exponent_bits;
    int const bias = (1 << (exponent_bits - 1)) - 1;
    int const exponent = (bits & 0x7fff) >> fraction_bits;
    int const fraction = bits & ((1 << fraction_bits) - 1);
    long double const sign = (bits & 0x8000) != 0 ? -1.0L : 1.0L;
    if (exponent == (1 << exponent_bits) - 1) return fraction != 0 ? std::nanl("") : sign * HUGE_VALL;
    long double const significand = exponent == 0 ? fraction : fraction + (1 << fraction_bits);
    return sign * std::ldexp(significand, (exponent == 0 ? 1 : exponent) - bias - fraction_bits);
}

/// The pattern nearest to x >= 0, ties to even, by bisection over the patterns, which order as their values do.
std::uint16_t nearest(long double x, int exponent_bits) {
    int const largest = ((1 << exponent_bits) - 1) << (15 - exponent_bits);  // infinity
    int low = 0;
    int high = largest;
    while (high - low > 1) {
        int const middle = (low + high) / 2;
        (value(static_cast<std::uint16_t>(middle), exponent_bits) <= x ? low : high) = middle;
    }
    long double const below = value(static_cast<std::uint16_t>(low), exponent_bits);
    // Infinity rounds as the number that would follow the largest one.
    long double const step = below - value(static_cast<std::uint16_t>(low - 1), exponent_bits);
    long double const above = high == largest ? below + step : value(static_cast<std::uint16_t>(high), exponent_bits);
    bool const up = x - below > above - x || (x - below == above - x && low % 2 != 0);
    return static_cast<std::uint16_t>(up ? high : low);
}

template <class T>
void check_all_patterns(int exponent_bits) {
    for (std::uint32_t p = 0; p < 65536; ++p) {
        auto const bits = static_cast<std::uint16_t>(p);
        T const x = T::from_bits(bits);
        long double const exact = value(bits, exponent_bits);
        float const got = static_cast<float>(x);
        if (std::isnan(exact)) {
            ASSERT_TRUE(std::isnan(got)) << p;
        } else {
            ASSERT_EQ(static_cast<long double>(got), exact) << p;
            ASSERT_EQ(std::signbit(got), (p & 0x8000) != 0) << p;
        }
        ASSERT_EQ(T(got).bits, bits) << p;  // NaN payloads too
    }
}

template <class T>
void check_rounding(int exponent_bits) {
    auto const check = [&](std::uint32_t pattern) {
        float const x = __builtin_bit_cast(float, pattern);
        if (std::isnan(x)) return;
        std::uint16_t const expected = static_cast<std::uint16_t>(
            nearest(std::fabs(static_cast<long double>(x)), exponent_bits) | (std::signbit(x) ? 0x8000 : 0));
        ASSERT_EQ(T(x).bits, expected) << x;
    };
    for (std::uint64_t p = 0; p < (std::uint64_t{1} << 32); p += 16381) check(static_cast<std::uint32_t>(p));
    // Ties, and a float above and below each, for every pair of neighbours.
    for (int p = 0; p < ((1 << exponent_bits) - 1) << (15 - exponent_bits); ++p) {
        long double const a = value(static_cast<std::uint16_t>(p), exponent_bits);
        long double const b = value(static_cast<std::uint16_t>(p + 1), exponent_bits);
        if (!std::isfinite(b)) continue;
        auto const tie = __builtin_bit_cast(std::uint32_t, static_cast<float>((a + b) / 2));
        for (std::uint32_t const t : {tie - 1, tie, tie + 1}) check(t & 0x7fffffffU);
    }
}

TEST(float16, converts_every_pattern_exactly) { check_all_patterns<float16>(5); }
TEST(float16, rounds_to_nearest_even) { check_rounding<float16>(5); }
TEST(bfloat16, converts_every_pattern_exactly) { check_all_patterns<bfloat16>(8); }
TEST(bfloat16, rounds_to_nearest_even) { check_rounding<bfloat16>(8); }

TEST(float16, overflows_where_ieee_says) {
    EXPECT_EQ(float16(65504.0F).bits, 0x7bff);
    EXPECT_EQ(float16(65519.996F).bits, 0x7bff);
    EXPECT_EQ(float16(65520.0F).bits, 0x7c00);
    EXPECT_EQ(float16(1e30F).bits, 0x7c00);
    EXPECT_EQ(float16(-HUGE_VALF).bits, 0xfc00);
}

TEST(float16, keeps_a_nan_a_nan) {
    EXPECT_EQ(float16(__builtin_bit_cast(float, 0x7f800001U)).bits, 0x7e00);
    EXPECT_EQ(bfloat16(__builtin_bit_cast(float, 0x7f800001U)).bits, 0x7fc0);
    EXPECT_EQ(bfloat16(__builtin_bit_cast(float, 0xffffffffU)).bits, 0xffff);
}

TEST(float16, converts_the_same_in_a_loop_and_in_a_constant) {
    std::vector<float16> row(65536);
    std::vector<float> out(row.size());
    for (std::size_t i = 0; i < row.size(); ++i) row[i] = float16::from_bits(static_cast<std::uint16_t>(i));
    for (std::size_t i = 0; i < row.size(); ++i) out[i] = to_real(row[i]);
    for (std::size_t i = 0; i < row.size(); ++i) {
        ASSERT_EQ(__builtin_bit_cast(std::uint32_t, out[i]),
                  __builtin_bit_cast(std::uint32_t, static_cast<float>(float16::from_bits(row[i].bits))));
    }
    static_assert(static_cast<float>(float16::from_bits(0x3c00)) == 1.0F);
    static_assert(float16(0.5F).bits == 0x3800 && float16(0x1p-24F).bits == 1 && float16(-0.0F).bits == 0x8000);
    static_assert(bfloat16(1.0F).bits == 0x3f80 && to_real(bfloat16::from_bits(0xc000)) == -2.0F);
}

TEST(to_real, computes_in_float_but_for_double) {
    static_assert(std::is_same_v<real_of<float16>, float> && std::is_same_v<real_of<bfloat16>, float>);
    static_assert(std::is_same_v<real_of<float>, float> && std::is_same_v<real_of<double const&>, double>);
    EXPECT_EQ(to_real(0.1), 0.1);
    EXPECT_EQ(to_real(0.1F), 0.1F);
}

// Rows that an engine keeps as words, or in the compiler's own types.
TEST(float16, is_read_from_words_and_from_the_types_of_the_compiler) {
    std::vector<std::uint16_t> const words{0x3c00, 0x3800, 0xbf80, 0x0001};
    for (std::size_t i = 0; i < words.size(); ++i) {
        EXPECT_EQ(multidraft::as_float16(words.data())[i].bits, words[i]);
        EXPECT_EQ(multidraft::as_bfloat16(words.data())[i].bits, words[i]);
#if defined(MULTIDRAFT_NATIVE_FLOAT16)
        EXPECT_EQ(to_real(__builtin_bit_cast(_Float16, words[i])), to_real(float16::from_bits(words[i])));
        static_assert(std::is_same_v<real_of<_Float16>, float>);
#endif
#if defined(__BFLT16_MANT_DIG__)
        EXPECT_EQ(to_real(__builtin_bit_cast(__bf16, words[i])), to_real(bfloat16::from_bits(words[i])));
        static_assert(std::is_same_v<real_of<__bf16>, float>);
#endif
    }
}

}  // namespace
}  // namespace float16_test
