// Batches on host threads: more and fewer threads than requests, pools that are created and destroyed, under the
// sanitizer.
#include <gtest/gtest.h>

#include <vector>

#include "batch/ragged.hpp"
#include "multidraft/batch/draft.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/batch/validate.hpp"
#include "multidraft/batch/verify.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/testing/small_step.hpp"
#include "multidraft/verify/traversal.hpp"

namespace batch_test {
namespace {

using namespace multidraft;
namespace mt = multidraft::testing;

TEST(threads, batches_are_the_same_on_any_number_of_them) {
    using verifier = verify::traversal<law::sequential>;
    mt::ragged<float> const blank(mt::ragged_shapes, 100, mt::samplings_of_all_kinds);
    mt::ragged<float> alone = blank;
    alone.draw_alone(draft::sequential{});
    auto const expected = alone.verify_alone<mt::silent_group>(verifier{});
    for (int const threads : {1, 2, 4, 8, 16}) {
        host_threads const pool(threads);
        for (int again = 0; again < 5; ++again) {
            mt::ragged<float> b = blank;
            b.draw_levels([&](auto const& level, auto const& rows, auto const& requests, auto const& out) {
                draft_batch(pool, draft::sequential{}, level, draft_rows(rows), requests, out);
            });
            mt::verdict_memory out(b.trees(), 0);
            verify::scratch_memory memory;
            verify_batch(pool, verifier{}, drawn_by<law::sequential>(b.trees()), target_rows(b.target_logits()),
                         draft_rows(b.draft_logits()), b.requests(), out.view(),
                         memory.of(verify_workspace_size<verifier>(pool, b.size(), 10, 9)));
            EXPECT_EQ(out.outcomes(b.trees()), expected);
            validation_report report;
            validate_batch(pool, tree_rules{}, drawn_by<law::sequential>(b.trees()), target_rows(b.target_logits()),
                           draft_rows(b.draft_logits()), b.requests(), &report);
            EXPECT_EQ(report.what, batch_argument::nothing);
        }
    }
}

}  // namespace
}  // namespace batch_test
