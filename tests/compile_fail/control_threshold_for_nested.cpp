// expect: ok
// A tree whose shape depends on a node's own context alone is valid for nested ranked block verification.
#include "multidraft/decode/reach_drafter.hpp"
#include "multidraft/decode/speculative.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/verify/nested_ranked_block.hpp"

struct model {
    int vocabulary() const;
    int context_limit() const;
    int length() const;
    void forward(multidraft::token_batch const&, std::span<float>);
    void keep(int, std::span<int const>);
};

auto make(model& target, model& draft) {
    using namespace multidraft;
    return make_speculative<verify::nested_ranked_block<law::stratified>>(
        target, reach_drafter<model, draft::stratified, by_threshold>(draft));
}
