// The limits of numeric types, as constants.
#include "multidraft/base/numbers.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

namespace numbers_test {
namespace {

TEST(numbers, are_those_of_the_standard_library) {
    static_assert(multidraft::minus_infinity<float> < -multidraft::largest_number<float>);
    static_assert(multidraft::infinity<double> > multidraft::largest_number<double>);
    static_assert(multidraft::largest_number<std::int32_t> == 0x7fffffff);
    static_assert(multidraft::epsilon<float> == 0x1p-23F && multidraft::epsilon<double> == 0x1p-52);
    EXPECT_TRUE(std::isnan(multidraft::not_a_number<float>));
    EXPECT_TRUE(std::isinf(multidraft::infinity<float>));
}

}  // namespace
}  // namespace numbers_test
