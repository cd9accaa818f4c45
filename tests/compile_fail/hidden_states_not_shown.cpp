// expect: the stop rule reads the draft's hidden states and this model does not show them
#include "multidraft/decode/speculative.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/research/early_stop.hpp"
#include "multidraft/tree/shapes.hpp"
#include "multidraft/verify/recursive_rejection.hpp"

struct model {
    int vocabulary() const;
    int context_limit() const;
    int length() const;
    void forward(multidraft::token_batch const&, std::span<float>);
    void keep(int, std::span<int const>);
};

auto make(model& target, model& draft, multidraft::hidden_state_stop const& rule) {
    using namespace multidraft;
    using drafter = static_tree_drafter<model, draft::sequential, hidden_state_stop>;
    auto loop =
        make_speculative<verify::recursive_rejection<law::sequential>>(target, drafter(draft, chain(2), {}, rule));
    token_id const prompt[] = {1};
    return loop(prompt, {});
}
