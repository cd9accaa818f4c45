// Lossless methods that decide node by node, on rows that are distributed over ranks.
#include "shards/methods.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {
namespace methods_by_node_test {
namespace {

template <class Method>
class shard_methods_by_node : public ::testing::Test {};
TYPED_TEST_SUITE(shard_methods_by_node, decltype(types_of(methods::by_node{})), method_names);

TYPED_TEST(shard_methods_by_node, decide_as_on_one_host) { expect_method_of_host<TypeParam>(); }

}  // namespace
}  // namespace methods_by_node_test
}  // namespace MULTIDRAFT_NAMESPACE::testing
