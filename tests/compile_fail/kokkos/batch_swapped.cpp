// expect: no matching function for call to .verify_batch
// expect: target_rows.*draft_rows
// The draft's rows in the target's place.
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/kokkos/on.hpp"
#include "multidraft/kokkos/verify.hpp"
#include "multidraft/verify/recursive_rejection.hpp"

using namespace multidraft;

void verify_them(tree_batch const& trees, logit_batch<float> const& p, logit_batch<float> const& q,
                 request_batch const& requests, verdict_batch const& out) {
    auto const here = kokkos::on(Kokkos::DefaultHostExecutionSpace());
    verify_batch(here, verify::recursive_rejection<law::sequential>{}, drawn_by<law::sequential>(trees), draft_rows(q),
                 target_rows(p), requests, out);
}
