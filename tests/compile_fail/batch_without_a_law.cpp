// expect: no matching function for call to .verify_batch
// Trees without a law.
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/batch/verify.hpp"
#include "multidraft/verify/recursive_rejection.hpp"

using namespace multidraft;

void verify_it(tree_batch const& trees, logit_batch<float> const& p, logit_batch<float> const& q,
               request_batch const& requests, verdict_batch const& out) {
    verify_batch(host_threads(2), verify::recursive_rejection<law::sequential>{}, trees, target_rows(p), draft_rows(q),
                 requests, out);
}
