// expect: the shape of this tree depends on draws that this verifier does not allow it to depend on
// Where nodes share a list, a cousin's draws are the node's own.
#include "multidraft/draft/tree_growth.hpp"
#include "multidraft/verify/ranked_block.hpp"
#include "multidraft/verify/traits.hpp"

using namespace multidraft;

auto drafts(draft::tree_growth<law::shared_lists<law::iid>, shape_depends_on::earlier_draws> const& tree) {
    return verify::drafts_for(verify::ranked_block<law::iid>{}, tree);
}
