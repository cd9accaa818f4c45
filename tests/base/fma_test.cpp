// One rounding where the hardware has it, and no unwanted contraction.
#include "multidraft/base/fma.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <vector>

namespace fma_test {
namespace {

namespace fp = multidraft::fp;

TEST(fma, rounds_once_with_the_hardware_and_twice_without) {
    // (1 + 2^-12)^2 = 1 + 2^-11 + 2^-24: the last term is lost when the product is rounded.
    float const a = 1.0F + 0x1p-12F;
    EXPECT_EQ(fp::fma(a, a, -1.0F), multidraft::has_fma ? 0x1p-11F + 0x1p-24F : 0x1p-11F);
    double const b = 1.0 + 0x1p-27;
    EXPECT_EQ(fp::fma(b, b, -1.0), multidraft::has_fma ? 0x1p-26 + 0x1p-54 : 0x1p-26);
    if (multidraft::has_fma) {
        EXPECT_EQ(fp::fma(0.1F, 10.0F, -1.0F), std::fma(0.1F, 10.0F, -1.0F));
    }
}

TEST(mul, is_not_contracted_with_a_sum) {
    std::vector<float> a(1024, 1.0F + 0x1p-12F);
    std::vector<float> out(1024, -1.0F);
    std::vector<double> b(1024, 1.0 + 0x1p-27);
    std::vector<double> wide(1024, -1.0);
    for (std::size_t i = 0; i < a.size(); ++i) out[i] += fp::mul(a[i], a[i]);
    for (std::size_t i = 0; i < b.size(); ++i) wide[i] += fp::mul(b[i], b[i]);
    for (float const x : out) ASSERT_EQ(x, 0x1p-11F);
    for (double const x : wide) ASSERT_EQ(x, 0x1p-26);
}

TEST(div, is_rounded_to_the_nearest) {
    for (int a = 1; a < 200; ++a)
        for (int b = 1; b < 200; ++b) {
            // For a quotient of two floats, rounding to double and then to float equals rounding to float.
            auto const expected = static_cast<float>(static_cast<double>(a) / b);
            ASSERT_EQ(multidraft::fp::div(static_cast<float>(a), static_cast<float>(b)), expected) << a << '/' << b;
        }
    EXPECT_EQ(multidraft::fp::div(1.0, 3.0), 1.0 / 3.0);
}

TEST(mul, keeps_the_sign_of_zero) {
    float volatile zero = 0.0F;
    EXPECT_TRUE(std::signbit(fp::mul(-1.0F, static_cast<float>(zero))));
    EXPECT_FALSE(std::signbit(fp::mul(1.0F, static_cast<float>(zero))));
    EXPECT_TRUE(std::signbit(fp::mul(-1.0, static_cast<double>(zero))));
}

}  // namespace
}  // namespace fma_test
