// expect: the tree was drawn by another law than this verifier is for.*drawn_by<Sampler::law>
// Most likely tokens do not go into recursive rejection.
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/draft/top_n.hpp"
#include "multidraft/kokkos/on.hpp"
#include "multidraft/kokkos/verify.hpp"
#include "multidraft/verify/recursive_rejection.hpp"

using namespace multidraft;

void verify_them(tree_batch const& trees, logit_batch<float> const& p, logit_batch<float> const& q,
                 request_batch const& requests, verdict_batch const& out) {
    auto const here = kokkos::on(Kokkos::DefaultHostExecutionSpace());
    verify_batch(here, verify::recursive_rejection<law::sequential>{}, drawn_by<draft::top_n::law>(trees),
                 target_rows(p), draft_rows(q), requests, out);
}
