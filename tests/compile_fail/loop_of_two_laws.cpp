// expect: the sampler draws by one law and the verifier is for another
#include "multidraft/decode/speculative.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/tree/shapes.hpp"
#include "multidraft/verify/recursive_rejection.hpp"

struct model {
    int vocabulary() const;
    int context_limit() const;
    int length() const;
    void forward(multidraft::token_batch const&, std::span<float>);
    void keep(int, std::span<int const>);
};

auto make(model& target, model& draft) {
    using namespace multidraft;
    return make_speculative<draft::iid, verify::recursive_rejection<law::sequential>>(target, draft, chain(2));
}
