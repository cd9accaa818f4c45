// A block drafter of a target, in the manner of DSpark or DFlash: a few layers over the target's hidden states that
// give the rows of all depths in one call. models/README.md has the layout of its files, models/train/drafters.py what
// it computes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/decode/block_model.hpp"
#include "multidraft/decode/features.hpp"
#include "transformer/config.hpp"
#include "transformer/drafter_candidates.hpp"
#include "transformer/transformer.hpp"

namespace multidraft::examples {

/// A loaded block drafter: constant, and shared by any number of `block_drafter_model`s. Embedding and head are its own
/// where its file has them, else the target's, in its memory, but for the head of a drafter with fewer tokens, which
/// copies the rows of those.
class block_drafter_weights {
public:
    /// Loads a directory with `config.json` and safetensors, for that target. Of the options `threads`, `numbers` and
    /// `by` are used; the automatic precision is the target's. Throws `std::runtime_error` that names the file and what
    /// is wrong with it or does not fit the target, or for a target on a device.
    block_drafter_weights(std::filesystem::path const& directory, std::shared_ptr<transformer_weights const> target,
                          transformer_options const& options = {});
    ~block_drafter_weights();
    block_drafter_weights(block_drafter_weights const&) = delete;
    block_drafter_weights& operator=(block_drafter_weights const&) = delete;

    [[nodiscard]] block_drafter_config const& config() const noexcept;
    /// The layers whose outputs it reads, for `transformer::expose_features`.
    [[nodiscard]] std::span<std::int32_t const> target_layers() const noexcept;
    [[nodiscard]] std::int64_t parameters() const noexcept;     ///< its own
    [[nodiscard]] std::size_t bytes_per_step() const noexcept;  ///< that a call reads once, the head's among them

private:
    friend class block_drafter_model;
    friend class batched_block_drafter;
    friend class block_layers;
    friend class drafter_candidates;
    friend struct block_text;
    struct implementation;
    std::unique_ptr<implementation const> implementation_;
};

/// One sequence: a block drafter with the keys and values of the positions whose features it has observed. Satisfies
/// `multidraft::block_model`, `adds_parent_terms` and `observes_features`.
///
/// Rows have the same bits in any number of threads, and in whatever pieces the features came. Nothing of a block stays
/// in the caches. For one thread at a time.
class block_drafter_model {
public:
    static constexpr block_traits traits{.parent_terms = true};

    explicit block_drafter_model(std::shared_ptr<block_drafter_weights const> weights);
    ~block_drafter_model();
    block_drafter_model(block_drafter_model&&) noexcept;
    block_drafter_model& operator=(block_drafter_model&&) noexcept;

    [[nodiscard]] std::int32_t vocabulary() const noexcept;
    [[nodiscard]] std::int32_t context_limit() const noexcept;
    [[nodiscard]] std::int32_t block_size() const noexcept;
    [[nodiscard]] std::int32_t feature_size() const noexcept;

    /// A new text begins.
    void reset() noexcept;

    /// A text begins that has the first positions of the last one: what was observed of them stays. `observed()` says
    /// how many there are. Throws `invalid_input`, with nothing changed, for more than those.
    void keep(std::int32_t positions);
    [[nodiscard]] std::int32_t observed() const noexcept;

    /// Takes the features of the next positions: their keys and values in every layer, computed once, at the next call
    /// of `rows`. Positions from `context_limit()` on are counted and not kept. Throws `invalid_input`, with nothing
    /// changed, for positions that are not the next ones of the text.
    void observe(std::span<float const> features, std::span<std::int32_t const> positions);

    /// Base rows, without the term of the parent: see `multidraft::block_model`. A token that the drafter does not have
    /// gets minus infinity. All slots are computed, also where fewer rows are wanted. Throws `invalid_input`, with
    /// nothing changed, unless features of all tokens of the text but the last one were observed.
    void rows(std::span<token_id const> text, std::span<float> logits);

    /// Adds the term of the parent: W2 W1[token], and nothing for a token that the drafter does not have. The same at
    /// every depth.
    void add_parent_term(std::int32_t depth, token_id token, std::span<float> row);

    /// The numbers that the layers read in place of features: `hidden_size` for each row of these.
    void project(std::span<float const> features, std::span<float> out);
    /// What the head multiplied in the last call of `rows`, a row for each.
    [[nodiscard]] std::span<float const> hidden_states() const noexcept;

    [[nodiscard]] std::shared_ptr<block_drafter_weights const> const& weights() const noexcept;

private:
    friend class short_block_drafter;
    struct implementation;
    std::unique_ptr<implementation> implementation_;
};

static_assert(block_model<block_drafter_model> && adds_parent_terms<block_drafter_model> &&
              observes_features<block_drafter_model>);

/// The same with short rows: of each depth and parent the tokens with the largest logits, so many. With a large
/// vocabulary a step's work on the rows is a small part of that on whole rows; verifiers are lossless for what they are
/// given. Satisfies `multidraft::gives_candidates`, too.
class short_block_drafter {
public:
    static constexpr block_traits traits{.parent_terms = true};

    /// `candidates` of a row, from 1 to the tokens that the drafter has; else throws `invalid_input`. The model belongs
    /// to the caller and must outlive this.
    short_block_drafter(block_drafter_model& model, std::int32_t candidates);

    [[nodiscard]] std::int32_t vocabulary() const noexcept { return model_->vocabulary(); }
    [[nodiscard]] std::int32_t context_limit() const noexcept { return model_->context_limit(); }
    [[nodiscard]] std::int32_t block_size() const noexcept { return model_->block_size(); }
    [[nodiscard]] std::int32_t feature_size() const noexcept { return model_->feature_size(); }
    [[nodiscard]] std::int32_t candidates() const noexcept { return candidates_.count(); }

    void reset() noexcept { model_->reset(); }
    void keep(std::int32_t positions) { model_->keep(positions); }
    [[nodiscard]] std::int32_t observed() const noexcept { return model_->observed(); }
    void observe(std::span<float const> features, std::span<std::int32_t const> positions) {
        model_->observe(features, positions);
    }

    /// The call for the rows of so many depths, with the errors of the model's `rows`.
    void read(std::span<token_id const> text, std::int32_t depths);
    /// The row of a depth of the last call with the term of that parent: `candidates()` tokens, rising, and their
    /// logits. Throws `invalid_input` for a depth beyond the call, a token that there is not, and room for another
    /// number of candidates.
    void candidates_after(std::int32_t depth, token_id token, std::span<token_id> tokens, std::span<float> logits);

private:
    block_drafter_model* model_;
    drafter_candidates candidates_;
    std::int32_t depths_ = 0;        ///< of the last call
    std::vector<float> base_, row_;  ///< the rows of a call over the drafter's tokens, and one with its term
};

static_assert(gives_candidates<short_block_drafter> && adds_parent_terms<short_block_drafter> &&
              observes_features<short_block_drafter>);

}  // namespace multidraft::examples
