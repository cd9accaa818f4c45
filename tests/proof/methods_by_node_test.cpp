// The proof of every method of the list that decides node by node.
#include "support/proved_methods.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

INSTANTIATE_TYPED_TEST_SUITE_P(methods_by_node, proved, methods::by_node::as<::testing::Types>, names_of_methods);

}  // namespace MULTIDRAFT_NAMESPACE::testing
