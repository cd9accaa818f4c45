// The way of tokens through the layers on the CPU, whichever sequences they belong to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "transformer/aligned_array.hpp"
#include "transformer/attended.hpp"
#include "transformer/attention_groups.hpp"
#include "transformer/key_value_cache.hpp"
#include "transformer/team.hpp"
#include "transformer/weights.hpp"

namespace multidraft::examples {

/// A token: its position in its text, and the entry that it writes in the cache of its sequence.
struct layer_row {
    token_id token;
    std::int32_t position;
    std::int32_t entry;
    key_value_cache* cache;
};

/// The buffers and the threads of forward calls. The weights are read once for all rows of a block. A row's logits have
/// the same bits whatever the other rows are.
class host_layers {
public:
    explicit host_layers(std::shared_ptr<transformer_weights const> weights);

    /// Takes up to `block_rows` rows through the layers: row r attends to `attended.of(r)`, which may have entries that
    /// rows of this block write. Writes the logits of the rows `wanted`, which increase, one after another, and appends
    /// their hidden states to `shown`; and of all rows what the layers `tapped` give to `features`.
    void forward(std::span<layer_row const> rows, attended_entries const& attended,
                 std::span<std::int32_t const> wanted, float* logits);

    /// From the next call on, `features` has the outputs of these layers. Throws `invalid_input` for one that there is
    /// not.
    void expose(std::span<std::int32_t const> layers);
    /// The features of a row.
    [[nodiscard]] std::int32_t feature_size() const noexcept;

    std::shared_ptr<transformer_weights const> shared;
    transformer_weights::implementation const& w;
    std::vector<float> shown;          ///< hidden states
    std::vector<std::int32_t> tapped;  ///< layers, 0 the first, in any order; their outputs are copied before any norm
    std::vector<float> features;       ///< of each row the outputs of these layers, one after another

private:
    [[nodiscard]] bool is_tapped(std::int32_t layer) const noexcept;
    void copy_features(std::int32_t layer, std::size_t rows);
    void rotate_and_cache(std::int32_t layer, std::span<layer_row const> rows);
    void block(std::span<layer_row const> rows, attended_entries const& attended, std::span<std::int32_t const> wanted,
               float* logits, int active);

    // Rows of the block on its way through the layers.
    aligned_array<float> residual_, normed_, qkv_, attention_, update_, gate_up_, activation_;
    aligned_array<std::byte> workspace_;
    std::size_t scores_per_thread_;
    aligned_array<float> scores_;
    attention_groups groups_;

    team threads_;
    thread_choice choice_;
};

}  // namespace multidraft::examples
