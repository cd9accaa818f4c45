// A drafter of a target in the manner of EAGLE-3: one layer over the target's hidden states, called level by level,
// with states of its own where the target's are not there yet. models/README.md has the layout of its files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

#include "multidraft/base/config.hpp"
#include "multidraft/decode/features.hpp"
#include "multidraft/decode/language_model.hpp"
#include "transformer/config.hpp"
#include "transformer/transformer.hpp"

namespace multidraft::examples {

/// A loaded head: constant, and shared by any number of `eagle_head_model`s. Embedding and output head are its own
/// where its file has them, else the target's, in its memory.
class eagle_head_weights {
public:
    /// Loads a directory with `config.json` and safetensors, for that target. Of the options `threads`, `numbers`, `by`
    /// and `tree_entries` are used; the automatic precision is the target's. Throws `std::runtime_error` that names the
    /// file and what is wrong with it or does not fit the target, or for a target on a device.
    eagle_head_weights(std::filesystem::path const& directory, std::shared_ptr<transformer_weights const> target,
                       transformer_options const& options = {});
    ~eagle_head_weights();
    eagle_head_weights(eagle_head_weights const&) = delete;
    eagle_head_weights& operator=(eagle_head_weights const&) = delete;

    [[nodiscard]] eagle_head_config const& config() const noexcept;
    /// The layers whose outputs it reads, for `transformer::expose_features`.
    [[nodiscard]] std::span<std::int32_t const> target_layers() const noexcept;
    [[nodiscard]] std::int64_t parameters() const noexcept;  ///< its own
    [[nodiscard]] std::size_t bytes_per_step()
        const noexcept;  ///< that a call reads once, the output head's among them

private:
    friend class eagle_head_model;
    friend class batched_eagle_head;
    friend class eagle_layer;
    friend struct eagle_text;
    struct implementation;
    std::unique_ptr<implementation const> implementation_;
};

/// One sequence: a head with the keys, values and states of its entries, one for each token. Satisfies
/// `multidraft::language_model` and `observes_features`.
///
/// At a token it reads the token and the state before it: the target's features of the position before where they were
/// observed, else the state that it computed itself at the parent (`parent_entry`). Before the first token of a text
/// there is none, zeros are read in its place, and no other token attends to the entry. Rows are over the target's
/// vocabulary; a token that the head does not have gets a logit of minus infinity.
///
/// Batch-invariant: a token's logits are a function, in the same bits, of the tokens that it attends to and of the
/// features before them. For one thread at a time.
class eagle_head_model {
public:
    explicit eagle_head_model(std::shared_ptr<eagle_head_weights const> weights);
    ~eagle_head_model();
    eagle_head_model(eagle_head_model&&) noexcept;
    eagle_head_model& operator=(eagle_head_model&&) noexcept;

    [[nodiscard]] std::int32_t vocabulary() const noexcept;
    [[nodiscard]] std::int32_t context_limit() const noexcept;
    [[nodiscard]] std::int32_t length() const noexcept;
    [[nodiscard]] std::int32_t feature_size() const noexcept;

    /// Takes the features of the next positions of the text. Entries after the first of these positions, which were
    /// computed without them, are discarded: `length()` is less, and the next call reads their tokens again. Positions
    /// from `context_limit()` on are counted and not kept. Throws `invalid_input`, with nothing changed, for positions
    /// that are not the next ones.
    void observe(std::span<float const> features, std::span<std::int32_t const> positions);

    /// See `multidraft::language_model`. The position of a token is the number of those that it attends to besides
    /// itself. Throws `invalid_input`, with nothing changed, as `transformer::forward` does, and for another position.
    void forward(token_batch const& batch, std::span<float> logits);

    /// See `multidraft::language_model`. Where the text is cut, the features of what is cut are forgotten. Throws
    /// `invalid_input`, with nothing changed.
    void keep(std::int32_t context, std::span<std::int32_t const> entries);

    [[nodiscard]] std::shared_ptr<eagle_head_weights const> const& weights() const noexcept;

private:
    struct implementation;
    std::unique_ptr<implementation> implementation_;
};

static_assert(language_model<eagle_head_model> && observes_features<eagle_head_model>);

}  // namespace multidraft::examples
