// Methods that decide node by node on trees of a fixed shape.
#include "generate/tree_methods.hpp"

namespace multidraft::examples {

void add_node_methods(std::vector<method>& all) { add_methods_of<multidraft::methods::by_node>(all); }

}  // namespace multidraft::examples
