// Methods that decide node by node, with a block drafter.
#include "generate/block_trees.hpp"

namespace multidraft::examples {

void add_block_runs_by_node(std::vector<method>& all) { add_block_runs_of<multidraft::methods::by_node>(all); }

}  // namespace multidraft::examples
