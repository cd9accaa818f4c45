// expect: this model's confidence reads a token of the tree, and this shape is chosen before any is drawn
#include "multidraft/decode/block_drafter.hpp"
#include "multidraft/decode/speculative.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/verify/nested_ranked_block.hpp"

struct target_model {
    int vocabulary() const;
    int context_limit() const;
    int length() const;
    void forward(multidraft::token_batch const&, std::span<float>);
    void keep(int, std::span<int const>);
};

struct block {
    static constexpr multidraft::block_traits traits{.confidence_after_token = true};
    int vocabulary() const;
    int context_limit() const;
    int block_size() const;
    void reset();
    void rows(std::span<multidraft::token_id const>, std::span<float>);
    double confidence(int depth, multidraft::token_id before) const;
};

auto make(target_model& target, block& model) {
    using namespace multidraft;
    using drafter = block_drafter<block, draft::stratified, best_first_shape>;
    auto loop = make_speculative<verify::nested_ranked_block<law::stratified>>(
        target, drafter(model, best_first_shape(draft::shape_budget{})));
    token_id const prompt[] = {1};
    return loop(prompt, {});
}
