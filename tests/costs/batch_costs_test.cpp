// Batched calls on host threads allocate nothing once their pool and workspace exist.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

#include "batch/ragged.hpp"
#include "costs/allocations.hpp"
#include "multidraft/batch/draft.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/batch/validate.hpp"
#include "multidraft/batch/verify.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/verify/nested_ranked_block.hpp"
#include "multidraft/verify/recursive_rejection.hpp"

namespace batch_costs_test {
namespace {

using namespace multidraft;
namespace mt = multidraft::testing;

template <class Sampler, class Verifier>
void expect_no_allocation() {
    mt::ragged<float> b(mt::ragged_shapes, 300, mt::samplings_of_all_kinds);
    host_threads const pool(3);
    b.draw_levels([&](level_batch const& level, logit_batch<float> const& rows, request_batch const& requests,
                      children_batch const& out) {
        mt::allocations = 0;
        draft_batch(pool, Sampler{}, level, draft_rows(rows), requests, out);
        EXPECT_EQ(mt::allocations, 0);
    });
    mt::verdict_memory out(b.trees(), 0);
    verify::scratch_memory memory;
    workspace const scratch = memory.of(verify_workspace_size<Verifier>(pool, b.size(), 10, 9));
    auto const drafts = drawn_by<typename Sampler::law>(b.trees());
    validation_report report;
    mt::allocations = 0;
    verify_batch(pool, Verifier{}, drafts, target_rows(b.target_logits()), draft_rows(b.draft_logits()), b.requests(),
                 out.view(), scratch);
    EXPECT_EQ(mt::allocations, 0);
    validate_batch(pool, tree_rules{}, drafts, target_rows(b.target_logits()), draft_rows(b.draft_logits()),
                   b.requests(), &report);
    EXPECT_EQ(mt::allocations, 0);
    EXPECT_EQ(report.what, batch_argument::nothing);
    EXPECT_FALSE(out.is_unwritten());
}

TEST(batch_costs, calls_allocate_nothing) {
    expect_no_allocation<draft::sequential, verify::recursive_rejection<law::sequential>>();
    expect_no_allocation<draft::stratified, verify::nested_ranked_block<law::stratified>>();
}

}  // namespace
}  // namespace batch_costs_test
