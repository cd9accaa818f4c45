// The device interface of the example transformer: the layers of one block of tokens, and moving cache entries.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "multidraft/base/config.hpp"
#include "transformer/config.hpp"
#include "transformer/safetensors.hpp"

namespace multidraft::examples {

/// Tokens that go through the layers together on a device, and the rows of its buffers. Every product is computed for
/// all of them, so that a row's sums do not depend on their number.
inline constexpr std::int32_t device_rows = 64;

/// Up to `device_rows` tokens. Token r becomes cache entry `first + r` and attends to the entries [0, context) and to
/// entry `context + c` for every bit c of its row of `words`.
struct device_block {
    std::span<token_id const> tokens;
    std::span<std::int32_t const> positions;
    std::int32_t first = 0;
    std::int32_t context = 0;
    std::uint64_t const* words = nullptr;
    std::int64_t row_words = 0;  ///< from one row to the next, each of `(first + tokens - context + 63) / 64` words
};

/// A sequence on a device: its cache and its buffers.
class accelerator_sequence {
public:
    accelerator_sequence() = default;
    accelerator_sequence(accelerator_sequence const&) = delete;
    accelerator_sequence& operator=(accelerator_sequence const&) = delete;
    virtual ~accelerator_sequence() = default;

    /// Takes a block through the layers; `logits` receives the rows of its last tokens.
    virtual void forward(device_block const& block, std::span<float> logits) = 0;

    /// Entry `context + entries[k]` becomes entry `context + k`; `entries` increases strictly.
    virtual void keep(std::int32_t context, std::span<std::int32_t const> entries) = 0;
};

/// A model loaded on a device.
class accelerator_weights {
public:
    accelerator_weights() = default;
    accelerator_weights(accelerator_weights const&) = delete;
    accelerator_weights& operator=(accelerator_weights const&) = delete;
    virtual ~accelerator_weights() = default;

    [[nodiscard]] virtual std::unique_ptr<accelerator_sequence> start() const = 0;
};

/// Loads a model for sequences of `context_limit` positions and `capacity` cache entries.
using accelerator = std::function<std::shared_ptr<accelerator_weights const>(
    model_config const& config, tensor_store const& tensors, std::int32_t context_limit, std::int32_t capacity)>;

/// The accelerator of `--device cuda`: bfloat16 products by cuBLASLt, one CUDA graph a block of tokens. Built where
/// nvcc and cuBLASLt are found. Throws `std::runtime_error` where there is no device.
[[nodiscard]] accelerator on_cuda(int device = 0);

}  // namespace multidraft::examples
