// expect: row_source
// expect: distribution
// errors: 1
// Rows that are pointers, given to a verifier itself.
#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/probabilities.hpp"
#include "multidraft/verify/traversal.hpp"

using namespace multidraft;

struct my_rows {
    float const* data;
    [[nodiscard]] index_t rows() const { return 4; }
    [[nodiscard]] index_t size() const { return 8; }
    template <group G>
    [[nodiscard]] float const* operator()(G const& /*g*/, node_id node) const {
        return data + node * 8;
    }
};

verdict verify_it(drafted<law::iid> tree, my_rows p, probability_rows<float> q, addressed_source& source,
                  span<node_id> path, span<std::byte> scratch) {
    return verify::traversal<law::iid>{}(host_group{}, tree, target_rows(p), draft_rows(q), source, 0, path, scratch);
}
