// A decoder-only transformer of Llama layout, on the CPU or a device, as a `multidraft::language_model`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "multidraft/core/config.hpp"
#include "multidraft/decode/language_model.hpp"
#include "transformer/accelerator.hpp"
#include "transformer/config.hpp"

namespace multidraft::examples {

/// The numbers that the matrix products multiply; everything else is float.
enum class precision {
    automatic,  ///< bf16 where the CPU multiplies it natively (AVX512_BF16, AMX), f32 elsewhere
    bf16,
    f32,
};

/// How a model is loaded.
struct transformer_options {
    /// Threads of a forward call. 0: one for a model of less than 64 MB, else all that OpenMP offers. More threads are
    /// faster for small models too (see `small_model_bytes` in the source), on cores that nobody else uses.
    int threads = 0;
    precision numbers = precision::automatic;
    /// Positions; 0 for the model's own. The cache is allocated in full, so a smaller limit saves memory.
    std::int32_t context_limit = 0;
    /// Cache entries beyond the positions, for the nodes of draft trees.
    std::int32_t tree_entries = 512;
    /// Where the layers run, such as `on_cuda()`; empty: on the CPU. Threads and precision are the CPU's.
    examples::accelerator accelerator{};
};

/// A loaded model: constant, and shared by any number of `transformer`s, which are sequences of their own.
class transformer_weights {
public:
    /// Loads a directory with `config.json` and safetensors. Throws `std::runtime_error` that names the file and what
    /// is wrong with it, `invalid_input` for an option.
    explicit transformer_weights(std::filesystem::path const& directory, transformer_options const& options = {});
    ~transformer_weights();
    transformer_weights(transformer_weights const&) = delete;
    transformer_weights& operator=(transformer_weights const&) = delete;

    [[nodiscard]] model_config const& config() const noexcept;
    [[nodiscard]] std::int32_t context_limit() const noexcept;
    [[nodiscard]] int threads() const noexcept;
    [[nodiscard]] precision numbers() const noexcept;  ///< bf16 or f32
    [[nodiscard]] std::size_t bytes_per_step() const;  ///< packed weights, which every forward call reads once
    [[nodiscard]] std::int64_t parameters() const noexcept;

    /// The matrix products in words: size, oneDNN's implementation, and the numbers of rows it runs with.
    [[nodiscard]] std::string description() const;

private:
    friend class transformer;
    friend struct device_sequence;
    struct implementation;
    std::unique_ptr<implementation const> implementation_;
};

struct device_sequence;

/// One sequence: a model with its key-value cache. Satisfies `multidraft::language_model`.
///
/// Batch-invariant: a token's logits have the same bits whether it is scored alone, in a prompt, in a chain or in a
/// tree, and before or after `keep` moved its ancestors together. The matrix products see to it for the rows (see
/// `matmul`), the attention by summing over the sequence of attended entries, wherever they lie in the cache.
///
/// `forward` itself allocates nothing once the first calls have sized the lists of attended entries. Not for two
/// threads at a time.
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

    /// See `multidraft::language_model`. Throws `invalid_input`, with the cache as it was, for tokens, positions or a
    /// mask that make no sense, or when the cache has no room.
    void forward(token_batch const& batch, std::span<float> logits);

    /// See `multidraft::language_model`. Throws `invalid_input`, with the cache as it was.
    void keep(std::int32_t context, std::span<std::int32_t const> entries);

    /// Numbers of a hidden state, and the hidden states of the tokens whose logits the last `forward` wrote: what the
    /// head multiplies. See `multidraft::reveals_hidden_state`. Throws `std::runtime_error` for a model on a device.
    [[nodiscard]] std::int32_t hidden_size() const noexcept;
    [[nodiscard]] std::span<float const> hidden_states() const;

    [[nodiscard]] std::shared_ptr<transformer_weights const> const& weights() const noexcept;

private:
    struct state;
    std::unique_ptr<state> state_;                    ///< on the CPU
    std::unique_ptr<struct device_sequence> device_;  ///< or on a device
};

static_assert(language_model<transformer>);

}  // namespace multidraft::examples
