// expect: ok
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/batch/verify.hpp"
#include "multidraft/draft/tree_growth.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/probabilities.hpp"
#include "multidraft/verify/ranked_block.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/traits.hpp"

using namespace multidraft;

verdict verify_it(tree_view tree, probability_rows<float> const& p, probability_rows<float> const& q,
                  addressed_source& source, span<node_id> path) {
    return verify::recursive_rejection<law::iid>{}(host_group{}, drafted<law::shared_lists<law::iid>>{tree},
                                                   target_rows(p), draft_rows(q), source, 0, path);
}

auto drafts(draft::tree_growth<law::shared_lists<law::iid>, shape_depends_on::own_context> const& tree) {
    return verify::drafts_for(verify::ranked_block<law::iid>{}, tree);
}

void verify_all(tree_batch const& trees, request_batch const& requests, logit_batch<float> const& p,
                logit_batch<float> const& q, verdict_batch const& out, workspace const& scratch) {
    verify_batch(host_threads(1), verify::ranked_block<law::stratified>{},
                 drawn_by<law::shared_lists<law::stratified>>(trees), target_rows(p), draft_rows(q), requests, out,
                 scratch);
}
