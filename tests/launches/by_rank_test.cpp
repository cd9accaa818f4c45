// Launches of the methods that rank candidates.
#include <gtest/gtest.h>

#include "launches/verdicts.hpp"

namespace by_rank_test {
namespace {

namespace mt = multidraft::testing;
namespace methods = multidraft::methods;
using multidraft::testing::cuda_device;

TEST_F(cuda_device, methods_by_rank_decide_as_on_the_host) {
    mt::expect_verdicts_of_all<multidraft::joined<methods::best, methods::by_rank>, multidraft::strided>();
}

}  // namespace
}  // namespace by_rank_test
