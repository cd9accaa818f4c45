// Methods that weigh whole paths and trees.
#include "generate/tree_methods.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/shared_randomness.hpp"
#include "multidraft/verify/block.hpp"
#include "multidraft/verify/multi_path_block.hpp"
#include "multidraft/verify/shared_randomness.hpp"
#include "multidraft/verify/traversal.hpp"

namespace multidraft::examples {

void add_tree_methods(std::vector<method>& all) {
    std::string const tree = default_tree();
    all.push_back(tree_method<draft::sequential, verify::traversal<law::sequential>>(
        "traversal/sequential", "candidates without replacement, the whole tree weighed from its leaves", tree));
    all.push_back(tree_method<draft::iid, verify::traversal<law::iid>>(
        "traversal/iid", "independent candidates, the whole tree weighed from its leaves", tree));
    all.push_back(tree_method<draft::iid, verify::block<law::iid>>(
        "block/iid", "one chain of candidates, accepted as a whole as far as it goes", default_chain(), true));
    all.push_back(tree_method<draft::iid, verify::multi_path_block>(
        "multi_path_block/iid", "independent paths: the one that the target prefers, accepted as a block",
        multiplies_by_tiles() ? "fork:3x4" : "1x1"));
    all.back().forks_only = true;
    all.push_back(tree_method<draft::shared_randomness, verify::shared_randomness>(
        "shared_randomness", "draft and target race over the same noise; no draft probabilities are needed", tree));
}

}  // namespace multidraft::examples
