// expect: no match for call|no matching function for call
// errors: 1
// The draft's rows in the target's place, in the call for one tree.
#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/probabilities.hpp"
#include "multidraft/verify/recursive_rejection.hpp"

using namespace multidraft;

verdict verify_it(tree_view tree, probability_rows<float> const& p, probability_rows<float> const& q,
                  addressed_source& source, span<node_id> path) {
    return verify::recursive_rejection<law::iid>{}(host_group{}, drafted<law::iid>{tree}, draft_rows(q), target_rows(p),
                                                   source, 0, path);
}
