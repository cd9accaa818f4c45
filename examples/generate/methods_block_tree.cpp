// Methods that verify whole paths and trees, with a block drafter.
#include "generate/block_trees.hpp"

namespace multidraft::examples {

void add_block_runs_by_tree(std::vector<method>& all) { add_block_runs_of<multidraft::methods::by_tree>(all); }

}  // namespace multidraft::examples
