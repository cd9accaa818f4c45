// The proof of every method of the list that goes by ranks, and of the default.
#include "support/proved_methods.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

INSTANTIATE_TYPED_TEST_SUITE_P(methods_by_rank, proved, methods::by_rank::as<::testing::Types>, names_of_methods);
INSTANTIATE_TYPED_TEST_SUITE_P(best_method, proved, methods::best::as<::testing::Types>, names_of_methods);
INSTANTIATE_TYPED_TEST_SUITE_P(sorted_methods, proved, methods::references::as<::testing::Types>, names_of_methods);

}  // namespace MULTIDRAFT_NAMESPACE::testing
