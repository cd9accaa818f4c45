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
    float rope_theta = 10000.0F;             ///< `rope_theta`
    bool tied_head = false;                  ///< `tie_word_embeddings`
    std::int32_t bos_token = 1;              ///< `bos_token_id`; -1 when null
    std::vector<std::int32_t> eos_tokens{};  ///< `eos_token_id`, one or several; empty when null
};

/// Reads and checks a `config.json`. Throws `std::runtime_error` that names the file, the key and the value when the
/// file cannot be read, a number is invalid, or the model needs a feature that the example does not implement.
[[nodiscard]] model_config read_config(std::filesystem::path const& file);

}  // namespace multidraft::examples
