// expect: the shape of this drafter's trees depends on what was drawn
// The shape of a tree whose branches share a budget depends on siblings and cousins: invalid for nested ranked block
// verification.
#include "multidraft/decode/speculative.hpp"
#include "multidraft/decode/static_tree_drafter.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/tree/allowed_trees.hpp"
#include "multidraft/verify/nested_ranked_block.hpp"

struct model {
    int vocabulary() const;
    int context_limit() const;
    int length() const;
    void forward(multidraft::token_batch const&, std::span<float>);
    void keep(int, std::span<int const>);
};

struct my_drafter : multidraft::static_tree_drafter<model, multidraft::draft::stratified> {
    static constexpr bool shape_depends_on_draws = true;
    static constexpr multidraft::shape_depends_on shape_depends_on = multidraft::shape_depends_on::earlier_draws;
};

auto make(model& target, my_drafter drafter) {
    using namespace multidraft;
    return make_speculative<verify::nested_ranked_block<law::stratified>>(target, drafter);
}
