// Any method over rows of probabilities: the same decisions as its sampler's and verifier's.
#include "verify/any_method_rows.hpp"

namespace any_method_probabilities_test {
namespace {

using namespace multidraft;
using namespace multidraft::testing;

TEST(any_method_probabilities, of_doubles) {
    expect_all_the_same<methods::for_engines, any_rows<double, true>, any_rows<double, true>>(25);
}
TEST(any_method_probabilities, of_floats) {
    expect_all_the_same<methods::for_engines, any_rows<float, true>, any_rows<float, true>>(25);
}

}  // namespace
}  // namespace any_method_probabilities_test
