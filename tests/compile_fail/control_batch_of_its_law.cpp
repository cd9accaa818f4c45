// expect: ok
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/batch/verify.hpp"
#include "multidraft/draft/top_n.hpp"
#include "multidraft/verify/naive.hpp"
#include "multidraft/verify/recursive_rejection.hpp"

using namespace multidraft;

void verify_it(tree_batch const& trees, logit_batch<float> const& p, logit_batch<float> const& q,
               request_batch const& requests, verdict_batch const& out) {
    host_threads const pool(2);
    verify_batch(pool, verify::recursive_rejection<law::sequential>{}, drawn_by<law::sequential>(trees), target_rows(p),
                 draft_rows(q), requests, out);
    verify_batch(pool, verify::naive<law::deterministic>{}, drawn_by<draft::top_n::law>(trees), target_rows(p),
                 draft_rows(verify::no_draft_rows{}), requests, out);
}
