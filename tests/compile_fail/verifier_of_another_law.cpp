// expect: the tree was drawn by another law.*verify::naive<Law> fits every law
// A tree drawn without replacement does not go into a verifier of independent draws.
#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/probabilities.hpp"
#include "multidraft/verify/recursive_rejection.hpp"

using namespace multidraft;

verdict verify_it(drafted<law::sequential> tree, probability_rows<float> p, probability_rows<float> q,
                  addressed_source& source, span<node_id> path) {
    return verify::recursive_rejection<law::iid>{}(host_group{}, tree, target_rows(p), draft_rows(q), source, 0, path);
}
