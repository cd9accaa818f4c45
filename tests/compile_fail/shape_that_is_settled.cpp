// expect: drafts
// Where the shape may depend on draws the tree needs a verifier: `drafts_for(verifier, tree)`.
#include "multidraft/draft/tree_growth.hpp"

using namespace multidraft;

auto drafts(draft::tree_growth<law::iid, shape_depends_on::own_context> const& tree) { return tree.drafts(); }
