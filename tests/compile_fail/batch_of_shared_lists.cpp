// expect: nodes of this tree share their list of children
// errors: 1
// The same for a batch and the default method.
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/batch/verify.hpp"
#include "multidraft/verify/nested_ranked_block.hpp"

using namespace multidraft;

void verify_it(tree_batch const& trees, request_batch const& requests, logit_batch<float> const& p,
               logit_batch<float> const& q, verdict_batch const& out) {
    verify_batch(host_threads(1), verify::nested_ranked_block<law::stratified>{},
                 drawn_by<law::shared_lists<law::stratified>>(trees), target_rows(p), draft_rows(q), requests, out);
}
