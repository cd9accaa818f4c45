// expect: gives a row of views and numbers, trivially copyable
#include <array>
#include <vector>

#include "multidraft/group/host_group.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/verify/recursive_rejection.hpp"

namespace md = multidraft;

struct row_with_memory {
    std::vector<float> weights;
    md::index_t size() const { return static_cast<md::index_t>(weights.size()); }
    float operator()(md::index_t i) const { return weights[static_cast<std::size_t>(i)]; }
    float weight(md::index_t i) const { return weights[static_cast<std::size_t>(i)]; }
};
struct law_of_vectors {
    static constexpr multidraft::law_traits traits{.name = "law_of_vectors"};
    template <class G, class Q>
    static row_with_memory conditional(G const&, Q const&, md::span<md::token_id const>) {
        return {};
    }
};

md::verify::node_verdict decide(md::addressed_source& source) {
    row_with_memory const row{{0.5F, 0.5F}};
    std::array<md::token_id, 1> const candidates{0};
    return md::verify::recursive_rejection<law_of_vectors>{}.decide(md::host_group{}, row, row, candidates, source, {});
}
