// A decoder-only transformer of Llama layout, on the CPU or a device, as a `multidraft::language_model`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/decode/features.hpp"
#include "multidraft/decode/language_model.hpp"
#include "transformer/accelerator.hpp"
#include "transformer/config.hpp"
#include "transformer/linear.hpp"

namespace multidraft::examples {

struct host_sequence;
struct device_sequence;

/// How the keys and values of texts are kept.
enum class cache_precision : std::uint8_t {
    automatic,  ///< `f16` where the inputs of products are rounded to 8 bits (`rounds_to_bytes`), else `f32`
    f32,
    f16,  ///< half as many bytes, rounded to 11 significant bits
};

/// How a model is loaded.
struct transformer_options {
    /// Threads of a forward call. 0: one for a model of less than 64 MB, else at each call the number that was recently
    /// fastest, up to one per core, so that other programs on a core do no harm.
    int threads = 0;
    precision numbers = precision::automatic;
    multiplier by = multiplier::automatic;
    cache_precision cache = cache_precision::automatic;
    /// Positions; 0 for the model's own. The cache is allocated in full, so a smaller limit saves memory.
    std::int32_t context_limit = 0;
    /// Cache entries beyond the positions, for the nodes of draft trees.
    std::int32_t tree_entries = 512;
    /// Where the layers run, such as `on_cuda()`; empty: on the CPU. Threads and precisions are the CPU's.
    examples::accelerator accelerator{};
    /// Called from time to time with the fraction loaded, from 0 to 1.
    std::function<void(double)> progress{};
};

/// A loaded model: constant, and shared by any number of `transformer`s, which are sequences of their own.
class transformer_weights {
public:
    /// Loads a directory with `config.json` and safetensors, or a GGUF file. Throws `std::runtime_error` that names the
    /// file and what is wrong with it, `invalid_input` for an option.
    explicit transformer_weights(std::filesystem::path const& directory, transformer_options const& options = {});
    ~transformer_weights();
    transformer_weights(transformer_weights const&) = delete;
    transformer_weights& operator=(transformer_weights const&) = delete;

    [[nodiscard]] model_config const& config() const noexcept;
    [[nodiscard]] std::int32_t context_limit() const noexcept;
    [[nodiscard]] int threads() const noexcept;            ///< of a call, at most
    [[nodiscard]] precision numbers() const noexcept;      ///< not automatic
    [[nodiscard]] cache_precision cache() const noexcept;  ///< not automatic
    [[nodiscard]] std::size_t bytes_per_step() const;      ///< of the weights that every forward call reads once
    [[nodiscard]] std::int64_t parameters() const noexcept;

    /// A description of the matrix products of a layer and of the head: sizes, types, implementation.
    [[nodiscard]] std::string description() const;

private:
    friend class transformer;
    friend class block_drafter_weights;
    friend class eagle_head_weights;
    friend class host_layers;
    friend class batched_transformer;
    friend struct device_sequence;

public:
    struct implementation;

private:
    std::unique_ptr<implementation const> implementation_;
};

/// One sequence: a model with its key-value cache. Satisfies `multidraft::language_model`.
///
/// Batch-invariant: a token's logits have the same bits whether it is scored alone, in a prompt, in a chain or in a
/// tree, before or after `keep` moved its ancestors together, and in any number of threads. The matrix products ensure
/// it for the rows (see product.hpp and matmul.hpp), the attention by summing over the sequence of attended entries,
/// wherever they are in the cache.
///
/// `forward` itself allocates nothing once the first calls have sized the lists of attended entries, except in oneDNN.
/// For one thread at a time.
class transformer {
public:
    /// A sequence of an already loaded model.
    explicit transformer(std::shared_ptr<transformer_weights const> weights);
    /// Loads the model first.
    explicit transformer(std::filesystem::path const& directory, transformer_options const& options = {});
    ~transformer();
    transformer(transformer&&) noexcept;
    transformer& operator=(transformer&&) noexcept;

    [[nodiscard]] std::int32_t vocabulary() const noexcept;
    [[nodiscard]] std::int32_t context_limit() const noexcept;
    [[nodiscard]] std::int32_t length() const noexcept;

    /// See `multidraft::language_model`. Throws `invalid_input`, with the cache as it was, for invalid tokens,
    /// positions or mask, or when the cache is full.
    void forward(token_batch const& batch, std::span<float> logits);

    /// See `multidraft::language_model`. Throws `invalid_input`, with the cache as it was.
    void keep(std::int32_t context, std::span<std::int32_t const> entries);

    /// Numbers of a hidden state, and the hidden states of the tokens whose logits the last `forward` wrote: what the
    /// head multiplies. See `multidraft::reveals_hidden_state`. Throws `std::runtime_error` for a model on a device.
    [[nodiscard]] std::int32_t hidden_size() const noexcept;
    [[nodiscard]] std::span<float const> hidden_states() const;

    /// From the next call on, the features of a token are the outputs of these layers, before any norm, one after
    /// another: 0 is the first layer. What a drafter was trained on (`block_drafter_weights::target_layers`). Without
    /// layers, as at first, there are no features. See `multidraft::exposes_features`. Throws `invalid_input`, with
    /// nothing changed, for a layer that there is not, `std::runtime_error` for a model on a device.
    void expose_features(std::span<std::int32_t const> layers);
    [[nodiscard]] std::int32_t feature_size() const noexcept;
    [[nodiscard]] std::span<float const> features() const noexcept;

    [[nodiscard]] std::shared_ptr<transformer_weights const> const& weights() const noexcept;

private:
    std::unique_ptr<host_sequence> host_;      ///< on the CPU
    std::unique_ptr<device_sequence> device_;  ///< or on a device
};

static_assert(language_model<transformer> && exposes_features<transformer>);

}  // namespace multidraft::examples
