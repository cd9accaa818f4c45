// expect: row_source
// expect: draft_row_source<|rows\(g, node\)
// errors: 1
// Rows without the group as an argument.
#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/probabilities.hpp"
#include "multidraft/verify/recursive_rejection.hpp"

using namespace multidraft;

struct my_rows {
    float const* data;
    [[nodiscard]] index_t rows() const { return 4; }
    [[nodiscard]] index_t size() const { return 8; }
    [[nodiscard]] probabilities<float> operator()(node_id node) const { return {data + node * 8, 8}; }
};

verdict verify_it(drafted<law::iid> tree, probability_rows<float> p, my_rows q, addressed_source& source,
                  span<node_id> path) {
    return verify::verify_tree(verify::recursive_rejection<law::iid>{}, host_group{}, tree, target_rows(p),
                               draft_rows(q), source, 0, path, {});
}
