// expect: row_source
// expect: no_draft_rows
// errors: 1
// No draft rows for a verifier that reads them.
#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/probabilities.hpp"
#include "multidraft/verify/traversal.hpp"
#include "multidraft/verify/verifier.hpp"

using namespace multidraft;

verdict verify_it(drafted<law::iid> tree, probability_rows<float> p, addressed_source& source, span<node_id> path,
                  span<std::byte> scratch) {
    return verify::verify_tree(verify::traversal<law::iid>{}, host_group{}, tree, target_rows(p),
                               draft_rows(verify::no_draft_rows{}), source, 0, path, scratch);
}
