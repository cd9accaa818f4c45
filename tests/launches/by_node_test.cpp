// Launches of the methods that verify node by node.
#include <gtest/gtest.h>

#include "launches/verdicts.hpp"

namespace by_node_test {
namespace {

namespace mt = multidraft::testing;
using multidraft::testing::cuda_device;

TEST_F(cuda_device, methods_by_node_decide_as_on_the_host) {
    mt::expect_verdicts_of_all<multidraft::methods::by_node, multidraft::strided>();
}

}  // namespace
}  // namespace by_node_test
