// `check_arithmetic`: this build's arithmetic is as required, and modes of the thread are detected.
#include "multidraft/base/arithmetic.hpp"

#include <gtest/gtest.h>

#include <cfenv>
#include <string>
#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/probabilities.hpp"

namespace arithmetic_test {
namespace {

using namespace multidraft;

TEST(arithmetic, of_this_build_is_right) {
    EXPECT_EQ(check_arithmetic(), arithmetic_fault::nothing);
    EXPECT_NO_THROW(validate_arithmetic());
}

#if defined(__SSE2__)
TEST(arithmetic, that_flushes_subnormals_is_found) {
    float const row[] = {0.5F, 0.5F};
    probabilities<float> const p(row, 2);
    for (unsigned const mode : {0x8000U, 0x0040U}) {  // results, operands
        unsigned const before = _mm_getcsr();
        _mm_setcsr(before | mode);
        auto const fault = check_arithmetic();
        std::string said;
        try {
            validate(host_group{}, p, "row");
        } catch (invalid_input const& e) {
            said = e.what();
        }
        _mm_setcsr(before);
        EXPECT_EQ(fault, arithmetic_fault::subnormals) << mode;
        EXPECT_NE(said.find("arithmetic = 2: numbers below 2^-126 are flushed to zero"), std::string::npos) << said;
    }
    EXPECT_NO_THROW(validate(host_group{}, p, "row"));
}
#endif

TEST(arithmetic, of_another_rounding_is_found) {
    for (int const mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
        std::fesetround(mode);
        auto const fault = check_arithmetic();
        std::fesetround(FE_TONEAREST);
        EXPECT_EQ(fault, arithmetic_fault::rounding) << mode;
    }
}

TEST(arithmetic, has_a_text_for_every_fault) {
    for (int k = 0; k <= static_cast<int>(arithmetic_fault::signed_zeros); ++k)
        EXPECT_NE(std::string(text_of(static_cast<arithmetic_fault>(k))), "unknown") << k;
}

}  // namespace
}  // namespace arithmetic_test
