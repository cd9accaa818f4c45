// Ranked verification: the candidate that is offered is chosen by ranks, at a node and along whole paths.
#include "generate/tree_methods.hpp"

namespace multidraft::examples {

void add_best_method(std::vector<method>& all) { add_methods_of<multidraft::methods::best>(all); }

void add_ranked_methods(std::vector<method>& all) { add_methods_of<multidraft::methods::by_rank>(all); }

}  // namespace multidraft::examples
