// The parts of a loaded model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "transformer/accelerator.hpp"
#include "transformer/kernels.hpp"
#include "transformer/linear.hpp"
#include "transformer/rotary.hpp"
#include "transformer/safetensors.hpp"
#include "transformer/transformer.hpp"

namespace multidraft::examples {

/// Tokens that go through the layers together; longer batches are split into blocks.
inline constexpr std::int32_t block_rows = 256;

/// Models with fewer bytes of weights run on one thread unless told otherwise. Their products are short, four per
/// layer: threads that synchronise so often suffer most from another program on a core. And the draft, which runs
/// between the target's calls, would keep the target's helpers from sleeping.
inline constexpr std::size_t small_model_bytes = std::size_t{64} << 20U;

struct transformer_weights::implementation {
    struct layer {
        std::unique_ptr<linear> qkv, out, gate_up, down;
        std::vector<float> attention_norm, mlp_norm;
    };

    implementation(std::filesystem::path const& directory, transformer_options const& options);

    [[nodiscard]] std::int32_t query_width() const noexcept { return config.heads * config.head_dim; }
    [[nodiscard]] std::int32_t kv_width() const noexcept { return config.kv_heads * config.head_dim; }

    /// Refuses a batch, or a number of logits, that is invalid for a cache of that length.
    void check(token_batch const& batch, std::size_t logits, std::int32_t length) const;

    model_config config;
    tensor_store tensors;
    precision numbers = precision::f32;
    kernels::cache_numbers cache = kernels::cache_numbers::floats;
    int threads = 1;
    bool chooses_threads = false;  ///< up to `threads`, by what is free
    std::int32_t context_limit = 0;
    std::int32_t capacity = 0;  ///< entries of a cache
    std::int64_t parameters = 0;

    tensor_view const* embedding = nullptr;
    tensor_view const* head_tensor = nullptr;  ///< what `head` was made of
    std::vector<layer> layers;
    std::vector<float> final_norm;
    std::unique_ptr<linear> head;
    rotary_angles angles;
    std::size_t bytes_per_step = 0;
    std::shared_ptr<accelerator_weights const> device;  ///< null on the CPU

private:
    [[nodiscard]] std::vector<float> vector(std::string const& name) const;
    void make_layers(std::string const& head_name, transformer_options const& options, std::size_t model_bytes);
};

}  // namespace multidraft::examples
