// Methods that verify by ranks, over prepared rows.
#include <gtest/gtest.h>

#include "batch/prepared.hpp"
#include "multidraft/methods/list.hpp"

namespace prepared_by_rank_test {
namespace {

namespace mt = multidraft::testing;

TEST(batch_prepare, methods_by_rank_decide_as_over_logits) {
    mt::expect_verdicts_of_all_prepared<multidraft::methods::by_rank>();
}

}  // namespace
}  // namespace prepared_by_rank_test
