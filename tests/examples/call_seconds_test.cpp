// The measured times of calls that `generate --tree auto` begins with.
#include "call_seconds.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace multidraft::examples {
namespace call_seconds_test {
namespace {

TEST(call_seconds, never_decrease_with_the_rows) {
    EXPECT_EQ(nondecreasing(std::vector<double>{}), std::vector<double>{});
    EXPECT_EQ(nondecreasing(std::vector<double>{1, 2, 2, 5}), (std::vector<double>{1, 2, 2, 5}));
    EXPECT_EQ(nondecreasing(std::vector<double>{1, 4, 2, 5}), (std::vector<double>{1, 3, 3, 5}));
    EXPECT_EQ(nondecreasing(std::vector<double>{2, 4, 3, 1}),
              (std::vector<double>{2, 2 + 2.0 / 3, 2 + 2.0 / 3, 2 + 2.0 / 3}));
    EXPECT_EQ(nondecreasing(std::vector<double>{4, 3, 2, 1}), (std::vector<double>{2.5, 2.5, 2.5, 2.5}));
}

TEST(call_seconds, the_middle_one) {
    EXPECT_EQ(median_of({3}), 3);
    EXPECT_EQ(median_of({3, 1, 2}), 2);
    EXPECT_EQ(median_of({4, 1, 2, 3}), 3);
}

}  // namespace
}  // namespace call_seconds_test
}  // namespace multidraft::examples
