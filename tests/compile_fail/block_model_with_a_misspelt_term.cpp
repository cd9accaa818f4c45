// expect: traits\.parent_terms == (\w+::)*has_parent_term<
#include "multidraft/decode/block_drafter.hpp"
#include "multidraft/draft/stratified.hpp"

struct block {
    static constexpr multidraft::block_traits traits{.parent_terms = true};
    int vocabulary() const;
    int context_limit() const;
    int block_size() const;
    void reset();
    void rows(std::span<multidraft::token_id const>, std::span<float>);
    void add_parents_term(int depth, multidraft::token_id before, std::span<float> row) const;
};

using drafter = multidraft::block_drafter<block, multidraft::draft::stratified>;

drafter make(block& model, multidraft::topology const& shape) { return drafter(model, shape); }
