// The way of tokens through the layer of a head of EAGLE-3, whichever texts they continue.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "multidraft/base/config.hpp"
#include "transformer/aligned_array.hpp"
#include "transformer/attended.hpp"
#include "transformer/attention_groups.hpp"
#include "transformer/config.hpp"
#include "transformer/draft_vocabulary.hpp"
#include "transformer/drafter_products.hpp"
#include "transformer/eagle_head.hpp"
#include "transformer/key_value_cache.hpp"
#include "transformer/linear.hpp"
#include "transformer/rotary.hpp"
#include "transformer/safetensors.hpp"
#include "transformer/weights.hpp"

namespace multidraft::examples {

struct eagle_head_weights::implementation {
    implementation(std::filesystem::path const& directory, std::shared_ptr<transformer_weights const> of,
                   transformer_weights::implementation const& its, transformer_options const& options);

    [[nodiscard]] std::int32_t query_width() const noexcept { return sizes.heads * sizes.head_dim; }
    [[nodiscard]] std::int32_t kv_width() const noexcept { return sizes.kv_heads * sizes.head_dim; }
    [[nodiscard]] std::int32_t feature_size() const noexcept {
        return config.target_hidden * static_cast<std::int32_t>(target_layers.size());
    }

    eagle_head_config config;
    model_config const& sizes;
    std::shared_ptr<transformer_weights const> target;
    transformer_weights::implementation const& of_target;
    tensor_store tensors;
    precision numbers;
    int threads = 1;
    bool chooses_threads = false;
    std::int32_t context_limit = 0;
    std::int32_t capacity = 0;  ///< entries of a cache
    std::int64_t parameters = 0;
    std::size_t bytes_per_step = 0;

    std::vector<std::int32_t> target_layers;
    /// Keys and values are made at every token, queries and what follows only where a state or logits are wanted.
    std::unique_ptr<linear> projection, queries, keys_values, out, gate_up, down, own_head;
    std::vector<float> token_norm, state_norm, mlp_norm, final_norm;
    tensor_view const* embedding = nullptr;
    linear const* head = nullptr;
    draft_vocabulary vocabulary;
    rotary_angles angles;

private:
    void check_target(std::filesystem::path const& directory) const;
    void make_parts(std::filesystem::path const& directory, multiplier by, std::size_t model_bytes);
};

/// What a head keeps of a text.
struct eagle_text {
    explicit eagle_text(eagle_head_weights::implementation const& w);

    /// The state of an entry.
    [[nodiscard]] float* state(std::int32_t entry) const noexcept {
        return states.data() + static_cast<std::size_t>(entry) * hidden;
    }
    /// Makes another entry of the text that of a token.
    void move(std::int32_t from, std::int32_t to);

    key_value_cache cache;
    std::size_t hidden;
    std::int32_t observed = 0;       ///< positions whose features were observed: the first ones
    std::vector<float> pending;      ///< features of the last ones of them, which nothing has read yet
    aligned_array<float> projected;  ///< by position: what the next token reads of its features
    aligned_array<float> states;     ///< by entry: its own
};

/// The buffers and the threads of a head's calls. The weights are read once for tokens of several texts. Rows have the
/// same bits whatever else is in the call.
class eagle_layer {
public:
    /// A token of a text. It reads the state of entry `parent`; none: that of the target at the position before.
    struct row {
        eagle_text* text;
        token_id token;
        std::int32_t position, entry, parent;
        bool wanted;  ///< whether its logits are written
    };

    explicit eagle_layer(eagle_head_weights::implementation const& weights);

    /// Takes the features of the text's next positions, a row for each. Positions from the context's limit on are
    /// counted and not kept.
    void observe(eagle_text& text, std::span<float const> features);

    /// Forgets the features of the positions from `length` on.
    void cut(eagle_text& text, std::int32_t length);

    /// Rows with what each attends to, the first entry of its text and its own included; the logits of those that are
    /// wanted, over the target's tokens, one after another.
    void forward(std::span<row const> rows, attended_entries const& attended, float* logits);

    eagle_head_weights::implementation const& w;
    drafter_products products;

private:
    /// Makes what is read of features that are pending.
    void take_in(std::span<eagle_text* const> texts);
    void take_in_rows();
    void write_inputs(row const& of, std::size_t r);
    void rotate(float* heads, std::int32_t count, std::int32_t position) const;
    void some_rows(std::span<row const> rows, attended_entries const& attended, std::size_t first, float* logits);
    void write_logits(std::size_t count, float* to);

    std::vector<eagle_text*> texts_;   ///< of a call
    std::vector<float*> places_;       ///< of features on their way
    std::vector<std::int32_t> going_;  ///< rows of a block whose state is made
    attended_entries attended_;        ///< of these, without the first entry of their text
    attention_groups groups_;
    aligned_array<float> features_, residual_, inputs_, normed_, update_, queries_, keys_values_, attention_, gate_up_,
        activation_, short_rows_;
    std::size_t scores_per_thread_;
    aligned_array<float> scores_;
};

}  // namespace multidraft::examples
