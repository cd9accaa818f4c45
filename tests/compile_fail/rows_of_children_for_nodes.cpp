// expect: draft_rows_for|row_source
// errors: 1
// The rows of several draft models, one a child, for a verifier that reads one a node.
#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/probabilities.hpp"
#include "multidraft/verify/recursive_rejection.hpp"

using namespace multidraft;

struct my_rows_of_models {
    float const* data;
    [[nodiscard]] index_t rows() const { return 4; }
    [[nodiscard]] index_t size() const { return 8; }
    template <group G>
    [[nodiscard]] probabilities<float> operator()(G const& /*g*/, node_id node, index_t child) const {
        return {data + (node * 2 + child) * 8, 8};
    }
};

verdict verify_it(drafted<law::iid> tree, probability_rows<float> p, my_rows_of_models q, addressed_source& source,
                  span<node_id> path) {
    return verify::recursive_rejection<law::iid>{}(host_group{}, tree, target_rows(p), draft_rows(q), source, 0, path);
}
