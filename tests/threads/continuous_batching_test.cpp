// Requests that come, go and are cancelled while a pool of threads draws and verifies, under the sanitizer.
#include <gtest/gtest.h>

#include "support/many_requests.hpp"

namespace continuous_batching_test {
namespace {

TEST(threads, requests_in_flight_have_their_own_texts) {
    multidraft::testing::many::expect_own_texts_under_load(10'000, 4, 1000);
}

}  // namespace
}  // namespace continuous_batching_test
