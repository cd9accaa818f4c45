// Launches of the methods that verify paths and trees.
#include <gtest/gtest.h>

#include "launches/verdicts.hpp"

namespace by_tree_test {
namespace {

namespace mt = multidraft::testing;
using multidraft::testing::cuda_device;

TEST_F(cuda_device, methods_by_tree_decide_as_on_the_host) {
    mt::expect_verdicts_of_all<multidraft::methods::by_tree, multidraft::strided>();
}

}  // namespace
}  // namespace by_tree_test
