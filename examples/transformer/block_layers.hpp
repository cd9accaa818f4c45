// The way of blocks through the layers of a block drafter, whichever texts they continue.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "multidraft/base/config.hpp"
#include "transformer/aligned_array.hpp"
#include "transformer/attention_groups.hpp"
#include "transformer/block_drafter.hpp"
#include "transformer/draft_vocabulary.hpp"
#include "transformer/drafter_products.hpp"
#include "transformer/drafter_tensors.hpp"
#include "transformer/key_value_cache.hpp"
#include "transformer/linear.hpp"
#include "transformer/rotary.hpp"
#include "transformer/weights.hpp"

namespace multidraft::examples {

struct block_drafter_weights::implementation {
    /// Keys and values are made of a text's features by the same product as of a block's slots, queries of slots alone.
    struct layer {
        std::unique_ptr<linear> queries, keys_values, out, gate_up, down;
        std::vector<float> attention_norm, mlp_norm, query_norm, key_norm;
    };

    implementation(std::filesystem::path const& directory, std::shared_ptr<transformer_weights const> of,
                   transformer_weights::implementation const& its, transformer_options const& options);

    [[nodiscard]] std::int32_t query_width() const noexcept { return sizes.heads * sizes.head_dim; }
    [[nodiscard]] std::int32_t kv_width() const noexcept { return sizes.kv_heads * sizes.head_dim; }
    [[nodiscard]] std::int32_t feature_size() const noexcept {
        return sizes.hidden * static_cast<std::int32_t>(config.target_layers.size());
    }

    block_drafter_config config;
    model_config const& sizes;
    std::shared_ptr<transformer_weights const> target;
    transformer_weights::implementation const& of_target;
    tensor_store tensors;
    precision numbers;
    int threads = 1;
    bool chooses_threads = false;
    std::int32_t context_limit = 0;
    std::int32_t capacity = 0;  ///< entries of a cache: of a text and a block
    std::int64_t parameters = 0;
    std::size_t bytes_per_step = 0;

    std::unique_ptr<linear> projection;
    std::vector<layer> layers;
    std::vector<float> projection_norm, final_norm, mask;
    tensor_view const* embedding = nullptr;  ///< its own, or the target's
    draft_vocabulary vocabulary;
    std::unique_ptr<linear> own_head;        ///< or null: its own, or the target's rows of its tokens
    linear const* head = nullptr;            ///< its own, or the target's
    tensor_view const* of_parent = nullptr;  ///< W1, or null
    std::unique_ptr<linear> of_entries;      ///< W2, or null
    rotary_angles angles;

private:
    void check_target(std::filesystem::path const& directory) const;
    void make_layers(std::filesystem::path const& directory, multiplier by, std::size_t model_bytes);
    void read_embedding_and_head(drafter_tensors& read);
};

/// What a block drafter keeps of a text.
struct block_text {
    explicit block_text(block_drafter_weights::implementation const& w)
        : cache(w.sizes.layers, w.sizes.kv_heads, w.sizes.head_dim, w.capacity, w.of_target.cache) {}

    key_value_cache cache;
    std::int32_t observed = 0;   ///< positions whose features came
    std::int32_t length = 0;     ///< entries of the cache
    std::vector<float> pending;  ///< features of the positions after them
};

/// The buffers and the threads of a drafter's calls. The weights are read once for the blocks of several texts. Rows
/// have the same bits whatever the other texts are.
class block_layers {
public:
    /// A block: the text, whose last token has no features yet, and that token.
    struct anchor {
        block_text* text;
        token_id token;
    };

    explicit block_layers(block_drafter_weights::implementation const& weights);

    /// Takes the features of the text's next positions, a row for each. Positions from the context's limit on are
    /// counted and not kept.
    void observe(block_text& text, std::span<float const> features);

    /// Keys and values of the positions whose features are pending.
    void take_in(std::span<block_text* const> texts);

    /// The slots of each block, at the positions from its text's length on, and of each the logits of the first
    /// `wanted` that predict, over the drafter's own tokens, one after another. What the head multiplied stays in
    /// `shown`.
    void blocks(std::span<anchor const> anchors, std::int32_t wanted, float* logits);

    /// Adds the terms of these parents to rows over the target's tokens, a row for each; nothing for a parent that the
    /// drafter does not have.
    void add_parent_terms(std::span<token_id const> parents, float* rows);
    /// The same to rows over the drafter's own tokens.
    void add_own_parent_terms(std::span<token_id const> parents, float* rows);

    /// What the layers read in place of features, for up to `block_rows` rows.
    void project(float const* features, std::int32_t count, float* out);

    block_drafter_weights::implementation const& w;
    drafter_products products;
    std::vector<float> shown;  ///< hidden states

private:
    struct place {
        block_text* text;
        std::int32_t position;
    };

    /// Normalises and rotates the heads of a row, the first of which is at `head`.
    void place_heads(float* head, std::int32_t heads, std::vector<float> const& norm, std::int32_t position) const;
    /// Writes the keys and values of some rows as the entries of their positions.
    void write_entries(std::int32_t layer, float const* rows, std::span<place const> places);
    void take_in_rows();
    /// Calls `use(k, term)` with the term of parent k over the drafter's own tokens, where it has one.
    template <class Use>
    void parent_terms(std::span<token_id const> parents, Use const& use);
    void some_blocks(std::span<anchor const> anchors, std::int32_t wanted, float* logits);

    // Rows on their way through the layers: features, or slots.
    aligned_array<float> residual_, normed_, update_, queries_, keys_values_, attention_, gate_up_, activation_;
    aligned_array<float> features_;
    std::vector<place> places_;
    aligned_array<float> parents_, terms_;
    std::vector<std::size_t> with_term_;
    std::size_t scores_per_thread_;
    aligned_array<float> scores_;
    attention_groups groups_;
};

}  // namespace multidraft::examples
