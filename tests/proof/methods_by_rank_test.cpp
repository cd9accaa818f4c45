// The proof of every ranked method of the list, and of the default.
#include "reference/methods.hpp"
#include "support/proved_methods.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

INSTANTIATE_TYPED_TEST_SUITE_P(methods_by_rank, proved, methods::by_rank::as<::testing::Types>, names_of_methods);
INSTANTIATE_TYPED_TEST_SUITE_P(best_method, proved, methods::best::as<::testing::Types>, names_of_methods);
INSTANTIATE_TYPED_TEST_SUITE_P(sorted_methods, proved, multidraft::testing::reference::methods::as<::testing::Types>,
                               names_of_methods);

}  // namespace MULTIDRAFT_NAMESPACE::testing
