// A sequence whose layers run on the CPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "transformer/aligned_array.hpp"
#include "transformer/attended.hpp"
#include "transformer/key_value_cache.hpp"
#include "transformer/team.hpp"
#include "transformer/weights.hpp"

namespace multidraft::examples {

struct host_sequence {
    using model = transformer_weights::implementation;

    explicit host_sequence(std::shared_ptr<transformer_weights const> weights);

    /// Takes a checked batch through the layers.
    void forward(token_batch const& batch, std::span<float> logits);
    std::shared_ptr<transformer_weights const> shared;
    model const& w;
    std::int32_t length = 0;
    key_value_cache cache;
    std::vector<float> shown;  ///< the hidden states of the last call's logits

private:
    void rotate_and_cache(std::int32_t layer, std::span<std::int32_t const> positions);
    /// Takes up to `block_rows` tokens of the batch through the layers, in so many threads; `logits` receives the rows
    /// of the last `wanted`.
    void block(token_batch const& batch, std::int32_t first, std::int32_t rows, std::int32_t wanted, float* logits,
               int active);

    // Rows of the block on its way through the layers.
    aligned_array<float> residual_, normed_, qkv_, attention_, update_, gate_up_, activation_;
    aligned_array<std::byte> workspace_;
    std::size_t scores_per_thread_;
    aligned_array<float> scores_;

    attended_entries attended_;

    team threads_;
    thread_choice choice_;
};

}  // namespace multidraft::examples
