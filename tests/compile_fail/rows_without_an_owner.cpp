// expect: no match for call|no matching function for call
// errors: 1
// Rows that do not say whose they are.
#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/probabilities.hpp"
#include "multidraft/verify/recursive_rejection.hpp"

using namespace multidraft;

verdict verify_it(tree_view tree, probability_rows<float> const& p, probability_rows<float> const& q,
                  addressed_source& source, span<node_id> path) {
    return verify::recursive_rejection<law::iid>{}(host_group{}, drafted<law::iid>{tree}, p, q, source, 0, path);
}
