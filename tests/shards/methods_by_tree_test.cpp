// Lossless methods that decide on whole paths and trees, on rows that are distributed over ranks.
#include "shards/methods.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {
namespace methods_by_tree_test {
namespace {

template <class Method>
class shard_methods_by_tree : public ::testing::Test {};
TYPED_TEST_SUITE(shard_methods_by_tree, decltype(types_of(methods::by_tree{})), method_names);

TYPED_TEST(shard_methods_by_tree, decide_as_on_one_host) { expect_method_of_host<TypeParam>(); }

}  // namespace
}  // namespace methods_by_tree_test
}  // namespace MULTIDRAFT_NAMESPACE::testing
