// Ranked verification, with a block drafter.
#include "generate/block_trees.hpp"

namespace multidraft::examples {

void add_block_runs_by_rank(std::vector<method>& all) {
    add_block_runs_of<multidraft::joined<multidraft::methods::best, multidraft::methods::by_rank>>(all);
}

}  // namespace multidraft::examples
