// expect: nodes of this tree share their list of children.*take verify::ranked_block or a verifier that decides node by
// node errors: 1 One list of children for each depth, given to a verifier that compares subtrees.
#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/probabilities.hpp"
#include "multidraft/verify/traversal.hpp"

using namespace multidraft;

verdict verify_it(tree_view tree, probability_rows<float> const& p, probability_rows<float> const& q,
                  addressed_source& source, span<node_id> path, span<std::byte> scratch) {
    drafted<law::shared_lists<law::iid>> const drafts{tree};
    return verify::traversal<law::iid>{}(host_group{}, drafts, target_rows(p), draft_rows(q), source, 0, path, scratch);
}
