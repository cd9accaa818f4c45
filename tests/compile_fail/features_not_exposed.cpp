// expect: this drafter reads the target's features and this model does not expose them
#include "multidraft/decode/speculative.hpp"
#include "multidraft/decode/static_tree_drafter.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/verify/recursive_rejection.hpp"

struct model {
    int vocabulary() const;
    int context_limit() const;
    int length() const;
    void forward(multidraft::token_batch const&, std::span<float>);
    void keep(int, std::span<int const>);
};

struct head : model {
    int feature_size() const;
    void observe(std::span<float const>, std::span<int const>);
};

auto make(model& target, head& draft, multidraft::topology const& shape) {
    using namespace multidraft;
    return make_speculative<draft::sequential, verify::recursive_rejection<law::sequential>>(target, draft, shape);
}
