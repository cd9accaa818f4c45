// expect: the shape of this drafter's trees depends on what was drawn
#include "multidraft/decode/speculative.hpp"
#include "multidraft/decode/stochastic_beam_drafter.hpp"
#include "multidraft/verify/traversal.hpp"

struct model {
    int vocabulary() const;
    int context_limit() const;
    int length() const;
    void forward(multidraft::token_batch const&, std::span<float>);
    void keep(int, std::span<int const>);
};

auto make(model& target, model& draft) {
    using namespace multidraft;
    return make_speculative<verify::traversal<law::sequential>>(target, stochastic_beam_drafter(draft, {2, 2}));
}
