// exp and log against long double over the whole range of floats, and the bits that every backend must give.
#include "multidraft/base/exp_log.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace exp_log_test {
namespace {

namespace fp = multidraft::fp;
using multidraft::exp_nonpositive;
using multidraft::exponential_variate;
namespace fp = multidraft::fp;
using multidraft::detail::bits_of;
using multidraft::detail::float_of;

constexpr float infinity = std::numeric_limits<float>::infinity();

/// The error of `got` in units of the last place of a float near `exact`.
double ulps(float got, long double exact) {
    if (exact >= 0x1.ffffffp127L) return got == infinity ? 0.0 : 1e9;
    if (got == infinity) return 1.0;  // rounded up past the largest float
    int exponent = 0;
    std::frexp(exact, &exponent);
    int const unit = (exponent - 1 < -126 ? -126 : exponent - 1) - 23;
    return static_cast<double>(std::fabs(static_cast<long double>(got) - exact) / std::ldexp(1.0L, unit));
}

struct worst {
    double error = 0.0;
    float at = 0.0F;
    void see(double e, float x) {
        if (!(e <= error)) error = e, at = x;
    }
};

TEST(exp, is_within_one_ulp_of_the_truth_everywhere) {
    worst all;
    auto const check = [&](std::uint32_t pattern) {
        float const x = float_of(static_cast<std::int32_t>(pattern));
        if (std::isnan(x)) return;
        all.see(ulps(fp::exp(x), std::exp(static_cast<long double>(x))), x);
    };
    for (std::uint64_t p = 0; p < (std::uint64_t{1} << 32); p += 1021) check(static_cast<std::uint32_t>(p));
    // Densely where something changes: around 0, overflow (88.72), subnormal results (-87.33), zero (-103.97), the
    // clamp.
    for (float const edge : {1e-8F, -1e-8F, 1.0F, -1.0F, 0.34657F, -0.34657F, 88.0F, 88.72283F, 88.72284F, -87.33654F,
                             -103.2789F, -103.97208F, -104.0F, 104.9F, 105.0F, -105.0F, 0.0F, -0.0F}) {
        for (int d = -2000; d <= 2000; ++d)
            check(static_cast<std::uint32_t>(bits_of(edge)) + static_cast<std::uint32_t>(d));
    }
    EXPECT_LT(all.error, multidraft::has_fma ? 0.9 : 1.2) << "at " << all.at;
    RecordProperty("ulps", std::to_string(all.error));
}

TEST(exp, handles_the_special_values) {
    EXPECT_EQ(fp::exp(0.0F), 1.0F);
    EXPECT_EQ(fp::exp(-0.0F), 1.0F);
    EXPECT_EQ(bits_of(fp::exp(-infinity)), 0);
    EXPECT_EQ(fp::exp(infinity), infinity);
    EXPECT_EQ(fp::exp(std::numeric_limits<float>::max()), infinity);
    EXPECT_EQ(bits_of(fp::exp(std::numeric_limits<float>::lowest())), 0);
    EXPECT_EQ(fp::exp(-104.0F), 0.0F);
    EXPECT_EQ(fp::exp(-103.9F), std::numeric_limits<float>::denorm_min());
    EXPECT_EQ(bits_of(fp::exp(std::nanf(""))), 0x7fc00000);
    EXPECT_EQ(bits_of(fp::exp(-std::nanf("7"))), 0x7fc00000);
}

// Of the power with the rounded rate, which changes the temperature by a relative 2^-24 at most.
TEST(exp_nonpositive, is_within_two_ulps_of_the_power) {
    worst all;
    for (float const scale : {1.0F, 0.7F, 3.3F, 0.01F, 1000.0F, 1e-30F, 1e30F}) {
        exp_nonpositive<float> const w(scale);
        long double const rate = static_cast<long double>(scale * 0x1.715476p0F);
        for (std::uint64_t k = 0; k < (std::uint64_t{1} << 31); k += 2039) {
            float const x = float_of(static_cast<std::int32_t>(0x80000000U + static_cast<std::uint32_t>(k)));
            if (std::isnan(x)) continue;
            long double const power = static_cast<long double>(x) * rate;
            long double const exact = std::exp2(power);
            float const got = w(x);
            ASSERT_GE(got, 0.0F) << x;
            ASSERT_LE(got, 1.0F) << x;
            if (power >= -99.49L) {
                all.see(ulps(got, exact) / (multidraft::has_fma ? 1.0 : 1.0 - static_cast<double>(power)), x);
            } else if (power < -99.51L) {
                ASSERT_EQ(bits_of(got), 0) << x;
            }
        }
    }
    EXPECT_LT(all.error, 2.1) << "at " << all.at;
    RecordProperty("ulps", std::to_string(all.error));
}

TEST(exp_nonpositive, is_exp_of_the_scaled_argument) {
    for (float const scale : {1.0F, 0.7F, 3.3F}) {
        exp_nonpositive<float> const w(scale);
        exp_nonpositive<double> const reference(static_cast<double>(scale));
        for (float x = 0.0F; x > -68.0F / scale; x -= 0.01F) {
            double const exact = reference(static_cast<double>(x));
            double const argument = -static_cast<double>(scale * x);
            ASSERT_NEAR(static_cast<double>(w(x)), exact, (0.15 + 0.1 * argument) * 1e-6 * exact) << x;
        }
    }
}

TEST(exp_nonpositive, handles_the_special_values_at_every_scale) {
    constexpr float most = std::numeric_limits<float>::max();
    for (float const scale : {1.0F, 0.7F, 1e-30F, 1e30F, most, std::numeric_limits<float>::denorm_min(),
                              std::numeric_limits<float>::min()}) {
        exp_nonpositive<float> const w(scale);
        EXPECT_EQ(w(0.0F), 1.0F) << scale;
        EXPECT_EQ(w(-0.0F), 1.0F) << scale;
        EXPECT_EQ(bits_of(w(-infinity)), 0) << scale;
        EXPECT_TRUE(std::isnan(w(std::nanf("")))) << scale;
        EXPECT_TRUE(std::isnan(w(-std::nanf("7")))) << scale;
        EXPECT_EQ(exp_nonpositive<double>(static_cast<double>(scale))(-std::numeric_limits<double>::infinity()), 0);
    }
    EXPECT_EQ(exp_nonpositive<float>(most)(-1e-30F), 0.0F);
    EXPECT_EQ(exp_nonpositive<float>(std::numeric_limits<float>::denorm_min())(-1e25F), 1.0F);
}

TEST(log, is_within_one_ulp_of_the_truth_everywhere) {
    worst all;
    auto const check = [&](std::uint32_t pattern) {
        float const x = float_of(static_cast<std::int32_t>(pattern));
        if (!(x > 0.0F) || x == infinity) return;
        all.see(ulps(fp::log(x), std::log(static_cast<long double>(x))), x);
    };
    for (std::uint32_t p = 0; p < 0x7f800000U; p += 509) check(p);
    for (float const edge : {1.0F, 0.75F, 1.5F, 0.5F, 2.0F, 1.17549435e-38F, 1e-45F, 3.4e38F}) {
        for (int d = -20000; d <= 20000; ++d) {
            check(static_cast<std::uint32_t>(bits_of(edge)) + static_cast<std::uint32_t>(d));
        }
    }
    EXPECT_LT(all.error, multidraft::has_fma ? 1.0 : 1.1) << "at " << all.at;
    RecordProperty("ulps", std::to_string(all.error));
}

TEST(log, handles_the_special_values) {
    EXPECT_EQ(bits_of(fp::log(1.0F)), 0);
    EXPECT_EQ(fp::log(0.0F), -infinity);
    EXPECT_EQ(fp::log(-0.0F), -infinity);
    EXPECT_EQ(fp::log(infinity), infinity);
    for (float const x : {-1.0F, -infinity, -1e-45F, std::nanf(""), -std::nanf("3")}) {
        EXPECT_EQ(bits_of(fp::log(x)), 0x7fc00000);
    }
}

TEST(exponential_variate, is_accurate_at_both_ends) {
    worst all;
    auto const check = [&](std::uint32_t word) {
        long double const v = (static_cast<long double>(word) + 0.5L) * 0x1p-32L;
        float const got = exponential_variate(word);
        ASSERT_GT(got, 0.0F) << word;
        ASSERT_LT(got, 22.9F) << word;
        all.see(ulps(got, -std::log1p(-v)), static_cast<float>(word));
    };
    for (std::uint64_t w = 0; w < (std::uint64_t{1} << 32); w += 1021) check(static_cast<std::uint32_t>(w));
    for (std::uint32_t const edge : {0U, 0x40000000U, 0x80000000U, 0xA0000000U, 0xFFFFFFFFU, 0xFFFF0000U, 0x10000U}) {
        for (std::uint32_t d = 0; d <= 20000; ++d) check(edge + d), check(edge - d);
    }
    for (int shift = 0; shift < 32; ++shift) {
        for (std::uint32_t d = 0; d < 200; ++d) {
            check((1U << shift) + d), check((1U << shift) - d), check(~((1U << shift) + d)), check(~(3U << shift) - d);
        }
    }
    EXPECT_LT(all.error, 1.5) << "at " << all.at;
    RecordProperty("ulps", std::to_string(all.error));
}

TEST(exponential_variate, never_decreases_by_more_than_rounding) {
    float last = 0.0F;
    for (std::uint64_t w = 0; w < (std::uint64_t{1} << 32); w += 65537) {
        float const now = exponential_variate(static_cast<std::uint32_t>(w));
        ASSERT_GE(now, last);
        last = now;
    }
}

// A changed coefficient changes which tokens are drawn from a seed: these fix the bits for every backend.
TEST(exp_log, give_the_same_bits_everywhere) {
    if (!multidraft::has_fma) GTEST_SKIP() << "no FMA instruction in this build";
    std::uint64_t mixed = 0;
    std::uint32_t state = 1;
    for (int i = 0; i < 1000000; ++i) {
        state = state * 1664525U + 1013904223U;
        float const x = float_of(static_cast<std::int32_t>(state));
        std::uint32_t const parts[] = {static_cast<std::uint32_t>(bits_of(fp::exp(x))),
                                       static_cast<std::uint32_t>(bits_of(fp::log(x))),
                                       static_cast<std::uint32_t>(bits_of(exponential_variate(state)))};
        for (std::uint32_t const part : parts) mixed = (mixed ^ part) * 0x100000001b3U;
    }
    EXPECT_EQ(mixed, 0xaae895f6a9b3a4abU);
}

TEST(exp_nonpositive, gives_the_same_bits_everywhere) {
    if (!multidraft::has_fma) GTEST_SKIP() << "no FMA instruction in this build";
    std::uint64_t mixed = 0;
    for (float const scale : {1.0F, 0.7F, 5.0F}) {
        exp_nonpositive<float> const w(scale);
        for (float x = 0.0F; x > -90.0F; x -= 0.000317F)
            mixed = (mixed ^ static_cast<std::uint32_t>(bits_of(w(x)))) * 0x100000001b3U;
    }
    EXPECT_EQ(mixed, 0x932abba818fad8ceU);
}

// In a vectorised loop, inlined into a sum, the bits are those of a single call.
TEST(exp_log, give_the_same_bits_inside_a_loop) {
    std::vector<float> x(4096);
    std::vector<float> out(4096);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = -0.03F * static_cast<float>(i);
    for (std::size_t i = 0; i < x.size(); ++i) out[i] = fp::exp(x[i]);
    float lanes[64] = {};
    for (std::size_t row = 0; row < 64; ++row) {
        for (std::size_t lane = 0; lane < 64; ++lane) lanes[lane] += fp::exp(x[row * 64 + lane]);
    }
    for (std::size_t lane = 0; lane < 64; ++lane) {
        float volatile sum = 0.0F;
        for (std::size_t row = 0; row < 64; ++row) sum = sum + out[row * 64 + lane];
        EXPECT_EQ(lanes[lane], sum);
    }
    for (std::size_t i = 0; i < x.size(); ++i) {
        float volatile one = x[i];
        ASSERT_EQ(bits_of(out[i]), bits_of(fp::exp(one)));
    }
}

TEST(exp_log, have_double_forms_for_references) {
    EXPECT_DOUBLE_EQ(fp::exp(1.0), 2.718281828459045);
    EXPECT_DOUBLE_EQ(fp::log(2.0), 0.6931471805599453);
}

}  // namespace
}  // namespace exp_log_test
