// expect: the tree was drawn by another law than this verifier is for
#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/probabilities.hpp"
#include "multidraft/verify/shared_randomness.hpp"

using namespace multidraft;

verdict verify_it(tree_view tree, probability_rows<float> const& target, addressed_source const& source,
                  span<node_id> path) {
    return verify::shared_randomness{}(host_group{}, drafted<law::iid>{tree}, target_rows(target),
                                       draft_rows(verify::no_draft_rows{}), source, 0, path);
}
