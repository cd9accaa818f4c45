// Many sequences of one model on the CPU, as a `multidraft::batched_language_model`.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "multidraft/base/config.hpp"
#include "multidraft/batch/step_inputs.hpp"
#include "multidraft/decode/batched_language_model.hpp"
#include "multidraft/decode/features.hpp"
#include "transformer/transformer.hpp"

namespace multidraft::examples {

/// A model with a key-value cache for each of several sequences: one pass over the weights for the rows of all of them.
///
/// A token's logits have the bits that a `transformer` gives them, whatever else is in the call. Caches take memory as
/// they are written. On the CPU. For one thread at a time.
class batched_transformer {
public:
    /// `sequences` caches, 1 or more. Throws `std::runtime_error` for a model on a device, `invalid_input` for another
    /// number.
    batched_transformer(std::shared_ptr<transformer_weights const> weights, std::int32_t sequences);
    ~batched_transformer();
    batched_transformer(batched_transformer&&) noexcept;
    batched_transformer& operator=(batched_transformer&&) noexcept;

    [[nodiscard]] std::int32_t vocabulary() const noexcept;
    [[nodiscard]] std::int32_t context_limit() const noexcept;
    [[nodiscard]] std::int32_t sequences() const noexcept;

    /// See `multidraft::batched_language_model`. Throws `failed_request`, with the caches as they were, for a request
    /// with an invalid token, a position beyond the context, or more entries than its cache has; `invalid_input` for
    /// arguments that do not fit together.
    void forward(step_inputs const& in, std::span<std::int32_t const> sequence_of, std::span<float> logits);

    /// See `multidraft::batched_language_model`. Throws `invalid_input`, with the cache as it was.
    void keep(std::int32_t sequence, std::int32_t context, std::span<std::int32_t const> entries);

    /// From the next call on, `features()` has the outputs of these layers, 0 the first, for every input. Throws
    /// `invalid_input` for a layer that there is not.
    void expose_features(std::span<std::int32_t const> layers);
    /// Those of a token: the layers' outputs, one after another.
    [[nodiscard]] std::int32_t feature_size() const noexcept;
    /// Those of all inputs of the last `forward`, a row for each; none while nothing is exposed.
    [[nodiscard]] std::span<float const> features() const noexcept;

private:
    struct implementation;
    std::unique_ptr<implementation> implementation_;
};

static_assert(batched_language_model<batched_transformer> && exposes_features_of_batch<batched_transformer>);

}  // namespace multidraft::examples
