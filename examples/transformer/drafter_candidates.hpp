// A few candidates of each row of a block drafter: the tokens with the largest logits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "multidraft/tree/topology.hpp"
#include "transformer/largest_entries.hpp"

namespace multidraft::examples {

class block_drafter_weights;

/// Chooses `count` tokens of a row, and keeps its workspace. For one thread at a time; the weights must outlive it.
class drafter_candidates {
public:
    /// From 1 to the tokens that the drafter has; else throws `invalid_input`.
    drafter_candidates(block_drafter_weights const& weights, std::int32_t count);

    [[nodiscard]] std::int32_t count() const noexcept { return count_; }

    /// Of rows over the drafter's own tokens the candidates of each, rising, and their logits. Throws `invalid_input`
    /// for a logit that is not a number. O(row).
    void choose(std::span<float const> rows, std::span<token_id> tokens, std::span<float> logits);

private:
    block_drafter_weights const* weights_;
    std::int32_t count_;
    largest_entries largest_;
};

}  // namespace multidraft::examples
