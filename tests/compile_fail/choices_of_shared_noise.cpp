// expect: must not choose the shape of the other
// Noise of places in the text is met again by later steps: no controller may have seen it.
#include "multidraft/control/controlled_drafter.hpp"
#include "multidraft/draft/shared_randomness.hpp"
#include "multidraft/verify/shared_randomness.hpp"

struct model {
    int vocabulary() const;
    int context_limit() const;
    int length() const;
    void forward(multidraft::token_batch const&, std::span<float>);
    void keep(int, std::span<int const>);
};

auto make(model& target, model& draft, multidraft::controller& choices) {
    using namespace multidraft;
    return make_controlled<draft::shared_randomness, verify::shared_randomness>(target, draft, choices);
}
