// expect: the shape of this tree depends on draws that this verifier does not allow it to depend on
// A tree whose shape depends on siblings and cousins is invalid for nested ranked block verification.
#include "multidraft/draft/stratified.hpp"
#include "multidraft/draft/tree_growth.hpp"
#include "multidraft/verify/nested_ranked_block.hpp"
#include "multidraft/verify/traits.hpp"

using namespace multidraft;

auto drafts(draft::tree_growth<law::stratified, shape_depends_on::earlier_draws> const& tree) {
    return verify::drafts_for(verify::nested_ranked_block<law::stratified>{}, tree);
}
