#include "llama_cpp/listed_methods.hpp"

namespace multidraft::examples {

void add_llama_methods_by_rank(std::vector<llama_method>& all) {
    add_listed<methods::best>(all);
    add_listed<methods::by_rank>(all);
}

}  // namespace multidraft::examples
