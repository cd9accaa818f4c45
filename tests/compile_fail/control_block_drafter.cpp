// expect: ok
#include "multidraft/decode/block_drafter.hpp"
#include "multidraft/decode/speculative.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/verify/nested_ranked_block.hpp"
#include "multidraft/verify/ranked_block.hpp"

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

using namespace multidraft;

auto make(target_model& target, block& model) {
    using drafter = block_drafter<block, draft::stratified, reach_shape>;
    auto loop =
        make_speculative<verify::nested_ranked_block<law::stratified>>(target, drafter(model, reach_shape(0.1, 4, 6)));
    token_id const prompt[] = {1};
    return loop(prompt, {});
}

auto make(target_model& target, block& model, topology const& shape) {
    using drafter = block_drafter<block, draft::stratified, fixed_shape, law::shared_lists<law::stratified>>;
    return make_speculative<verify::ranked_block<law::stratified>>(target, drafter(model, shape));
}
