// expect: the shape of this tree depends on draws that this verifier does not allow it to depend on
// Children that are dropped where a confidence in them is low: only verifiers that do not divide by q take such trees.
#include "multidraft/draft/tree_growth.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/traits.hpp"

using namespace multidraft;

auto drafts(draft::tree_growth<law::iid, shape_depends_on::everything>& tree, float confidence_in_child) {
    if (confidence_in_child < 0.5F) tree.drop(1);
    return verify::drafts_for(verify::recursive_rejection<law::iid>{}, tree);
}
