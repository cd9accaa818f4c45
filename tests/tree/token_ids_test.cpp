// Token ids of 64 bits.
#include "multidraft/tree/absent_tokens.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace MULTIDRAFT_NAMESPACE {
namespace token_ids_test {
namespace {

TEST(token_ids, out_of_range_are_no_token) {
    EXPECT_EQ(narrow_token(std::int64_t{7}), 7);
    EXPECT_EQ(narrow_token(std::int64_t{padding}), padding);
    EXPECT_EQ(narrow_token((std::int64_t{1} << 32) + 5), none) << "not token 5";
    EXPECT_EQ(narrow_token(std::int64_t{-4}), none);
    EXPECT_EQ(narrow_token(std::numeric_limits<std::int64_t>::min()), none);
}

}  // namespace
}  // namespace token_ids_test
}  // namespace MULTIDRAFT_NAMESPACE
