// The numbers that describe a model of Llama layout, read from its Hugging Face `config.json`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace multidraft::examples {

/// The contents of `config.json`, with Hugging Face's defaults filled in.
struct model_config {
    std::int32_t vocabulary = 0;             ///< `vocab_size`
    std::int32_t hidden = 0;                 ///< `hidden_size`
    std::int32_t intermediate = 0;           ///< `intermediate_size`
    std::int32_t layers = 0;                 ///< `num_hidden_layers`
    std::int32_t heads = 0;                  ///< `num_attention_heads`
    std::int32_t kv_heads = 0;               ///< `num_key_value_heads`; `heads` when absent
    std::int32_t head_dim = 0;               ///< `head_dim`; `hidden / heads` when absent
    std::int32_t max_positions = 0;          ///< `max_position_embeddings`
    float rms_norm_eps = 1e-6F;              ///< `rms_norm_eps`
    float rope_theta = 10000.0F;             ///< `rope_theta`, or that of `rope_parameters`
    bool tied_head = false;                  ///< `tie_word_embeddings`
    std::int32_t bos_token = 1;              ///< `bos_token_id`; -1 when null
    std::vector<std::int32_t> eos_tokens{};  ///< `eos_token_id`, one or several; empty when null
};

/// Reads and checks a `config.json`. Throws `std::runtime_error` that names the file, the key and the value when the
/// file cannot be read, a number is invalid, or the model needs a feature that the example does not implement.
[[nodiscard]] model_config read_config(std::filesystem::path const& file);

/// The contents of a block drafter's `config.json`, in the layout of the checkpoints of DSpark (`Qwen3DSparkModel`,
/// [DeepSpec](https://github.com/deepseek-ai/DeepSpec)) or [DFlash](https://github.com/z-lab/dflash)
/// (`DFlashDraftModel`, where `dflash_config` has some of the keys).
struct block_drafter_config {
    model_config layers;                        ///< its own; the vocabulary and the width are the target's
    float head_norm_eps = 1e-6F;                ///< of the norms of a head: `qk_norm_eps`, else `rms_norm_eps`
    std::int32_t slots = 0;                     ///< `block_size`, the anchor's among them
    std::int32_t first_slot = 0;                ///< that predicts: 0, the anchor's; of DFlash 1, the one after
    std::vector<std::int32_t> target_layers{};  ///< `target_layer_ids`: whose outputs it reads, 0 the first layer's
    std::int32_t layers_of_target = 0;          ///< `num_target_layers`; 0 when absent
    std::int32_t mask_token = -1;               ///< `mask_token_id`, unless a tensor is the mask; -1 when absent
    std::int32_t markov_rank = 0;               ///< `markov_rank` of the term of the parent; 0: there is none
    bool confidence_head = false;               ///< `enable_confidence_head`: it has one, which is not used
    bool confidence_of_parent = false;          ///< `confidence_head_with_markov`: that one reads the parent, too
    std::int32_t draft_vocabulary = 0;          ///< `draft_vocab_size`, its tokens; the target's when absent
    bool shares_target = false;                 ///< `embedding_and_head_of` the target: it has none of its own

    /// Rows of a call.
    [[nodiscard]] std::int32_t block_size() const noexcept { return slots - first_slot; }
};

/// Reads and checks the `config.json` of a block drafter. Throws as `read_config` does.
[[nodiscard]] block_drafter_config read_block_drafter_config(std::filesystem::path const& file);

/// The contents of the `config.json` of a head in the manner of EAGLE-3, in the layout of
/// [its checkpoints](https://github.com/SafeAILab/EAGLE) and of what SpecForge and train_drafter.py write.
struct eagle_head_config {
    model_config layer;                 ///< its own; the vocabulary is the target's
    std::int32_t draft_vocabulary = 0;  ///< `draft_vocab_size`, its tokens; the target's when absent
    std::int32_t target_hidden = 0;     ///< `target_hidden_size`; the head's own when absent
    /// Whose outputs it reads, 0 the first layer's: `eagle_aux_hidden_state_layer_ids` of `eagle_config`, or
    /// `target_layer_ids`. Empty when absent: `default_eagle_layers`.
    std::vector<std::int32_t> target_layers{};
    std::int32_t layers_of_target = 0;  ///< `num_target_layers`; 0 when absent
    bool norm_before_residual = false;  ///< `norm_before_residual`: the residual begins with the normalised state
};

/// Reads and checks the `config.json` of such a head. Throws as `read_config` does.
[[nodiscard]] eagle_head_config read_eagle_head_config(std::filesystem::path const& file);

/// Whether it is that of such a head, by its `architectures` or, where they are of no block drafter, its
/// `draft_vocab_size`. Throws as `read_config` does.
[[nodiscard]] bool is_eagle_head_config(std::filesystem::path const& file);

/// The layers that EAGLE-3 reads of a target of so many: those below layers 2, L / 2 and L - 3.
[[nodiscard]] std::vector<std::int32_t> default_eagle_layers(std::int32_t layers);

}  // namespace multidraft::examples
