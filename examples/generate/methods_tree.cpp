// Methods that verify whole paths and trees.
#include "generate/tree_methods.hpp"

namespace multidraft::examples {

void add_tree_methods(std::vector<method>& all) { add_methods_of<multidraft::methods::by_tree>(all); }

}  // namespace multidraft::examples
