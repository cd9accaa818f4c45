// expect: nodes of these trees share their list of children
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
    static constexpr multidraft::block_traits traits{};
    int vocabulary() const;
    int context_limit() const;
    int block_size() const;
    void reset();
    void rows(std::span<multidraft::token_id const>, std::span<float>);
};

auto make(target_model& target, block& model, multidraft::topology const& shape) {
    using namespace multidraft;
    using drafter = block_drafter<block, draft::stratified, fixed_shape, law::shared_lists<law::stratified>>;
    return make_speculative<verify::nested_ranked_block<law::stratified>>(target, drafter(model, shape));
}
