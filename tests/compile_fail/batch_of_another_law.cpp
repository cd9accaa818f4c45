// expect: the tree was drawn by another law than this verifier is for.*drawn_by<Sampler::law>
// Most likely tokens do not go into recursive rejection.
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/batch/verify.hpp"
#include "multidraft/draft/top_n.hpp"
#include "multidraft/verify/recursive_rejection.hpp"

using namespace multidraft;

void verify_it(tree_batch const& trees, logit_batch<float> const& p, logit_batch<float> const& q,
               request_batch const& requests, verdict_batch const& out) {
    verify_batch(host_threads(2), verify::recursive_rejection<law::sequential>{}, drawn_by<draft::top_n::law>(trees),
                 target_rows(p), draft_rows(q), requests, out);
}
