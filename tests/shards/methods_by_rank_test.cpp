// The ranked lossless methods, on rows that are distributed over ranks.
#include "shards/methods.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {
namespace methods_by_rank_test {
namespace {

template <class Method>
class shard_methods_by_rank : public ::testing::Test {};
TYPED_TEST_SUITE(shard_methods_by_rank, decltype(types_of(joined<methods::best, methods::by_rank>{})), method_names);

TYPED_TEST(shard_methods_by_rank, decide_as_on_one_host) { expect_method_of_host<TypeParam>(); }

}  // namespace
}  // namespace methods_by_rank_test
}  // namespace MULTIDRAFT_NAMESPACE::testing
