// One tree verified by a method that is named at run time.
#include <string_view>

#include "multidraft/methods/any_method.hpp"
#include "multidraft/rows/logit_rows.hpp"

using namespace multidraft;

verdict one_step(std::string_view name, any_drafted const& tree, float const* p, float const* q, index_t V,
                 sampling_params const& w, draw_key const& key, span<node_id> accepted_path) {
    auto const nodes = static_cast<index_t>(tree.tree.size());
    logit_rows<float> const target(rows_view<float>(p, nodes, V), w);
    logit_rows<float> const draft(rows_view<float>(q, nodes, V), w);
    method_memory<logit_rows<float>> memory;
    return parse_method(name).verify(tree, target_rows(target), draft_rows(draft), key, accepted_path, memory);
}
