// A head of EAGLE-3 for many texts at a time: one pass over its weights for a level of all their trees.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "multidraft/base/config.hpp"
#include "multidraft/batch/step_inputs.hpp"
#include "multidraft/decode/batched_language_model.hpp"
#include "multidraft/decode/features.hpp"
#include "transformer/eagle_head.hpp"

namespace multidraft::examples {

/// `sequences` texts of a head, each with a cache of its own. Satisfies `multidraft::batched_language_model` and
/// `observes_features_of_batch`. Rows have the bits that an `eagle_head_model` gives them, whatever else is in the
/// call. For one thread at a time.
class batched_eagle_head {
public:
    /// Throws `invalid_input` for less than 1 sequence.
    batched_eagle_head(std::shared_ptr<eagle_head_weights const> weights, std::int32_t sequences);
    ~batched_eagle_head();
    batched_eagle_head(batched_eagle_head&&) noexcept;
    batched_eagle_head& operator=(batched_eagle_head&&) noexcept;

    [[nodiscard]] std::int32_t vocabulary() const noexcept;
    [[nodiscard]] std::int32_t context_limit() const noexcept;
    [[nodiscard]] std::int32_t sequences() const noexcept;
    [[nodiscard]] std::int32_t feature_size() const noexcept;

    /// A new text begins. Throws `invalid_input` for no such sequence.
    void start(std::int32_t sequence);

    /// Takes the features of the next positions, from `first` on. Entries after the first of these positions were made
    /// without them: `current_length` is less. Throws `invalid_input`, with nothing changed, for another position than
    /// the next one, or features that are no rows.
    void observe(std::int32_t sequence, std::span<float const> features, std::int32_t first);

    /// The entries of the text that need not be read again. Throws `invalid_input` for no such sequence.
    [[nodiscard]] std::int32_t current_length(std::int32_t sequence) const;

    /// See `multidraft::batched_language_model`. Throws `failed_request` for a token that the target does not have and
    /// for a position or an entry beyond the limits, `invalid_input` for arguments that do not fit together, with
    /// nothing changed.
    void forward(step_inputs const& in, std::span<std::int32_t const> sequence_of, std::span<float> logits);

    /// See `multidraft::batched_language_model`. Throws `invalid_input`, with nothing changed.
    void keep(std::int32_t sequence, std::int32_t context, std::span<std::int32_t const> entries);

private:
    struct implementation;
    std::unique_ptr<implementation> implementation_;
};

static_assert(batched_language_model<batched_eagle_head> && observes_features_of_batch<batched_eagle_head>);

}  // namespace multidraft::examples
