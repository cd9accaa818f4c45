// The default method and one that verifies whole trees, in all shapes of launch for aligned rows.
#include <gtest/gtest.h>

#include "launches/verdicts.hpp"

namespace aligned_test {
namespace {

using namespace multidraft;
namespace mt = multidraft::testing;
using multidraft::testing::cuda_device;

TEST_F(cuda_device, methods_decide_in_every_shape_as_on_the_host) {
    mt::expect_verdicts_of_all<method_list<methods::nested_ranked_block_stratified, methods::traversal_sequential>,
                               aligned<16>>();
}

}  // namespace
}  // namespace aligned_test
