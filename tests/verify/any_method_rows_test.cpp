// Any method over rows of short logits, and of two types: the same decisions as its sampler's and verifier's.
#include "verify/any_method_rows.hpp"

namespace any_method_rows_test {
namespace {

using namespace multidraft;
using namespace multidraft::testing;

TEST(any_method_rows, half_logits) {
    expect_all_the_same<methods::for_engines, any_rows<float16, false>, any_rows<float16, false>>(25);
}
TEST(any_method_rows, bfloat16_logits_and_a_draft_of_floats) {
    expect_all_the_same<methods::for_engines, any_rows<bfloat16, false>, any_rows<float, false>>(25);
}

}  // namespace
}  // namespace any_method_rows_test
