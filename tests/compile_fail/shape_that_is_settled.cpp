// expect: drafts
// Where the shape may look at draws there is no tree for any verifier: `drafts_for` asks which one.
#include "multidraft/draft/tree_growth.hpp"

using namespace multidraft;

auto drafts(draft::tree_growth<law::iid, shape_depends_on::own_context> const& tree) { return tree.drafts(); }
