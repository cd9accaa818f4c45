// expect: ok
// The same with a shape that depends on the node's own context alone.
#include "multidraft/draft/stratified.hpp"
#include "multidraft/draft/tree_growth.hpp"
#include "multidraft/verify/nested_ranked_block.hpp"
#include "multidraft/verify/traits.hpp"

using namespace multidraft;

auto drafts(draft::tree_growth<law::stratified, shape_depends_on::own_context> const& tree) {
    return verify::drafts_for(verify::nested_ranked_block<law::stratified>{}, tree);
}
