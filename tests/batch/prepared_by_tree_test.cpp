// Methods that verify whole trees, over prepared rows.
#include <gtest/gtest.h>

#include "batch/prepared.hpp"
#include "multidraft/methods/list.hpp"

namespace prepared_by_tree_test {
namespace {

namespace mt = multidraft::testing;

TEST(batch_prepare, methods_by_tree_decide_as_over_logits) {
    mt::expect_verdicts_of_all_prepared<multidraft::methods::by_tree>();
}

}  // namespace
}  // namespace prepared_by_tree_test
