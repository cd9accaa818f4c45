// expect: this verifier reads the draft's rows: say draft_rows\(q\)
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/batch/verify.hpp"
#include "multidraft/verify/recursive_rejection.hpp"

using namespace multidraft;

void verify_it(tree_batch const& trees, logit_batch<float> const& p, request_batch const& requests,
               verdict_batch const& out) {
    verify_batch(host_threads(2), verify::recursive_rejection<law::sequential>{}, drawn_by<law::sequential>(trees),
                 target_rows(p), draft_rows(verify::no_draft_rows{}), requests, out);
}
