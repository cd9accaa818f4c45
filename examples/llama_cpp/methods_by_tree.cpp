#include "llama_cpp/listed_methods.hpp"

namespace multidraft::examples {

void add_llama_methods_by_tree(std::vector<llama_method>& all) { add_listed<methods::by_tree>(all); }

}  // namespace multidraft::examples
