// The proof of every method of the list for whole paths and trees, or with other drafters.
#include "support/proved_methods.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

INSTANTIATE_TYPED_TEST_SUITE_P(methods_by_tree, proved, methods::by_tree::as<::testing::Types>, names_of_methods);
INSTANTIATE_TYPED_TEST_SUITE_P(methods_of_drafters, proved, methods::of_drafters::as<::testing::Types>,
                               names_of_methods);

}  // namespace MULTIDRAFT_NAMESPACE::testing
