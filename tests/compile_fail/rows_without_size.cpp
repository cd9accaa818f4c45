// expect: row_source
// expect: rows\.size\(\)
// errors: 1
// Target rows without the size of the vocabulary.
#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/probabilities.hpp"
#include "multidraft/verify/recursive_rejection.hpp"

using namespace multidraft;

struct my_rows {
    float const* data;
    [[nodiscard]] index_t rows() const { return 4; }
    template <group G>
    [[nodiscard]] probabilities<float> operator()(G const& /*g*/, node_id node) const {
        return {data + node * 8, 8};
    }
};

verdict verify_it(drafted<law::iid> tree, my_rows p, probability_rows<float> q, addressed_source& source,
                  span<node_id> path) {
    return verify::verify_tree(verify::recursive_rejection<law::iid>{}, host_group{}, tree, target_rows(p),
                               draft_rows(q), source, 0, path, {});
}
