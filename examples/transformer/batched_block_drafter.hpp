// A block drafter for many texts at a time: one pass over its weights for the blocks of all of them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/decode/batched_block_draft.hpp"
#include "multidraft/decode/features.hpp"
#include "transformer/block_drafter.hpp"
#include "transformer/drafter_candidates.hpp"

namespace multidraft::examples {

/// `sequences` texts of a block drafter. Satisfies `multidraft::batched_block_model` and `observes_features_of_batch`.
/// Rows have the bits that a `block_drafter_model` gives them, whatever else is in the call. For one thread at a time.
class batched_block_drafter {
public:
    static constexpr block_traits traits{.parent_terms = true};

    /// Throws `invalid_input` for less than 1 sequence.
    batched_block_drafter(std::shared_ptr<block_drafter_weights const> weights, std::int32_t sequences);
    ~batched_block_drafter();
    batched_block_drafter(batched_block_drafter&&) noexcept;
    batched_block_drafter& operator=(batched_block_drafter&&) noexcept;

    [[nodiscard]] std::int32_t vocabulary() const noexcept;
    [[nodiscard]] std::int32_t context_limit() const noexcept;
    [[nodiscard]] std::int32_t block_size() const noexcept;
    [[nodiscard]] std::int32_t sequences() const noexcept;
    [[nodiscard]] std::int32_t feature_size() const noexcept;

    /// A new text begins. Throws `invalid_input` for no such sequence.
    void start(std::int32_t sequence);

    /// Takes the features of the next positions, from `first` on. Throws `invalid_input`, with nothing changed, for
    /// another position than the next one, or features that are no rows.
    void observe(std::int32_t sequence, std::span<float const> features, std::int32_t first);

    /// See `multidraft::batched_block_model`. Throws `failed_request` for a token that the target does not have and for
    /// a text beyond the context, `invalid_input` for arguments that do not fit together.
    void rows(std::span<std::int32_t const> sequences, std::span<token_id const> tokens, std::int32_t depths,
              std::span<float> logits);

    /// The same at every depth; nothing for a token that the drafter does not have.
    void add_parent_terms(std::span<std::int32_t const> depths, std::span<token_id const> tokens,
                          std::span<float> logits);

private:
    friend class batched_short_block_drafter;
    struct implementation;
    std::unique_ptr<implementation> implementation_;
};

static_assert(batched_block_model<batched_block_drafter> && observes_features_of_batch<batched_block_drafter>);

/// The same with rows of a few candidates, as those of a `short_block_drafter`. Satisfies
/// `multidraft::gives_candidates_of_batch`, too.
class batched_short_block_drafter {
public:
    static constexpr block_traits traits{.parent_terms = true};

    /// `candidates` of a row, from 1 to the tokens that the drafter has; else throws `invalid_input`. The model belongs
    /// to the caller and must outlive this.
    batched_short_block_drafter(batched_block_drafter& model, std::int32_t candidates);

    [[nodiscard]] std::int32_t vocabulary() const noexcept { return model_->vocabulary(); }
    [[nodiscard]] std::int32_t context_limit() const noexcept { return model_->context_limit(); }
    [[nodiscard]] std::int32_t block_size() const noexcept { return model_->block_size(); }
    [[nodiscard]] std::int32_t sequences() const noexcept { return model_->sequences(); }
    [[nodiscard]] std::int32_t feature_size() const noexcept { return model_->feature_size(); }
    [[nodiscard]] std::int32_t candidates() const noexcept { return candidates_.count(); }

    void start(std::int32_t sequence) { model_->start(sequence); }
    void observe(std::int32_t sequence, std::span<float const> features, std::int32_t first) {
        model_->observe(sequence, features, first);
    }

    /// The call for the rows of so many depths, with the errors of the model's `rows`.
    void read(std::span<std::int32_t const> sequences, std::span<token_id const> tokens, std::int32_t depths);

    /// Rows of the last call with the term of a token: tokens, rising, and logits of the candidates of each. Row k is
    /// of depth `depths[k]` of the call's sequence number `blocks[k]`, after `tokens[k]`. Throws `invalid_input` for a
    /// row that the call does not have, and for arguments that do not fit together.
    void candidates_after(std::span<std::int32_t const> blocks, std::span<std::int32_t const> depths,
                          std::span<token_id const> tokens, std::span<token_id> candidates, std::span<float> logits);

private:
    batched_block_drafter* model_;
    drafter_candidates candidates_;
    std::int32_t blocks_ = 0, depths_ = 0;  ///< of the last call
    std::vector<float> rows_;               ///< over the drafter's tokens
};

static_assert(batched_block_model<batched_short_block_drafter> &&
              gives_candidates_of_batch<batched_short_block_drafter> &&
              observes_features_of_batch<batched_short_block_drafter>);

}  // namespace multidraft::examples
