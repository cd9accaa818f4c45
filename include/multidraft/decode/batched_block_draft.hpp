// Block models of many requests as the draft of a loop over them: one call gives the rows of all depths of all trees.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/batch/step_inputs.hpp"
#include "multidraft/decode/batched_language_model.hpp"
#include "multidraft/decode/block_model.hpp"
#include "multidraft/decode/features.hpp"
#include "multidraft/decode/language_model.hpp"

namespace MULTIDRAFT_NAMESPACE {

namespace detail {

template <class M>
concept gives_rows_of_batch = requires(M& model, std::span<std::int32_t const> sequences,
                                       std::span<token_id const> tokens, std::span<logit_of<M>> logits) {
    model.rows(sequences, tokens, std::int32_t{1}, logits);
};

template <class M>
concept gives_candidate_rows_of_batch = requires(M& model, std::span<std::int32_t const> sequences,
                                                 std::span<token_id const> tokens, std::span<token_id> candidates,
                                                 std::span<logit_of<M>> logits) {
    model.rows(sequences, tokens, std::int32_t{1}, candidates, logits);
};

template <class M>
concept gives_candidates_after_of_batch = requires(M& model, std::span<std::int32_t const> numbers,
                                                   std::span<token_id const> tokens, std::span<token_id> candidates,
                                                   std::span<logit_of<M>> logits) {
    model.read(numbers, tokens, std::int32_t{1});
    model.candidates_after(numbers, numbers, tokens, candidates, logits);
};

template <class M>
concept has_parent_terms_of_batch = requires(M& model, std::span<std::int32_t const> depths,
                                             std::span<token_id const> tokens, std::span<logit_of<M>> logits) {
    model.add_parent_terms(depths, tokens, logits);
}
|| gives_candidates_after_of_batch<M>;

}  // namespace detail

/// A `batched_block_model` whose rows have a few candidates, `candidates()` of each: `rows` has one more argument,
/// before the logits, their tokens, which it writes, rising in each row. Where rows have a term of the token before
/// there are in its place `read(sequences, tokens, depths)`, and `candidates_after(blocks, depths, tokens, candidates,
/// logits)`, which writes rows of the last call with their terms: row k is of that depth of its sequence number
/// `blocks[k]`, after that token.
template <class M>
concept gives_candidates_of_batch = requires(M const& fixed) {
    { fixed.candidates() } -> std::convertible_to<std::int32_t>;
    requires detail::gives_candidate_rows_of_batch<M> || detail::gives_candidates_after_of_batch<M>;
};

/// A `block_model` for the texts of several sequences.
///
/// - `traits`: a static `block_traits`; heads of confidence are not used.
/// - `vocabulary()`, `context_limit()`, `block_size()`: as those of a `block_model`. `sequences()`: how many texts.
/// - `rows(sequences, tokens, depths, logits)`: for each of these sequences, whose text ends with that token, the
///   `depths` first rows of V logits, one after another.
/// - `add_parent_terms(depths, tokens, logits)`, where `traits.parent_terms`: adds to each row of V logits, a copy of a
///   row of that depth, the term of the token before it;
///   for rows of a few candidates, the members of `gives_candidates_of_batch`.
///
/// Rows of a sequence have the same bits whatever the others are. An error of one request alone is thrown as
/// `failed_request`, whose number is the sequence's in the call. A model that reads the target's hidden states
/// `observes_features_of_batch`.
template <class M>
concept batched_block_model = requires(M const& fixed) {
    { M::traits } -> std::convertible_to<block_traits>;
    requires(M::traits.parent_terms == detail::has_parent_terms_of_batch<M>);
    { fixed.vocabulary() } -> std::convertible_to<std::int32_t>;
    { fixed.context_limit() } -> std::convertible_to<std::int32_t>;
    { fixed.block_size() } -> std::convertible_to<std::int32_t>;
    { fixed.sequences() } -> std::convertible_to<std::int32_t>;
    requires detail::gives_rows_of_batch<M> || gives_candidates_of_batch<M>;
};

/// A draft of many sequences that makes the rows of a step in one call. `begin_step(depths)`: the next call of
/// `forward` is the first of a step whose trees have so many levels at most, and the rows of `block_size()` levels
/// there are.
template <class D>
concept drafts_in_one_call = batched_draft_model<D> && requires(D& draft, D const& fixed, std::int32_t depths) {
    { fixed.block_size() } -> std::convertible_to<std::int32_t>;
    draft.begin_step(depths);
};

/// A `batched_block_model` as the draft of `continuous_batching`: the first call of a step makes the rows of all depths
/// of all requests, later ones read them and add the terms of the tokens drawn.
///
///     batched_block_draft draft(model);
///     auto loop = make_continuous_batching<Sampler, Verifier>(target, draft, threads, fixed_shapes(chain(4)));
///
/// The model belongs to the caller and must outlive this. Memory: `depths` rows for each request in flight.
template <batched_block_model Model>
class batched_block_draft {
public:
    using logit = logit_of<Model>;
    static constexpr bool sparse = gives_candidates_of_batch<Model>;
    /// Which tokens a row has is known with the token before.
    static constexpr bool chosen_after_parent = sparse && Model::traits.parent_terms;

    /// Of this model.
    explicit batched_block_draft(Model& model) : model_(&model) {}

    /// V.
    [[nodiscard]] std::int32_t vocabulary() const { return model_->vocabulary(); }
    /// The largest number of positions.
    [[nodiscard]] std::int32_t context_limit() const { return model_->context_limit(); }
    /// How many texts.
    [[nodiscard]] std::int32_t sequences() const { return model_->sequences(); }
    /// The levels of which there are rows.
    [[nodiscard]] std::int32_t block_size() const { return model_->block_size(); }

    /// See `drafts_in_one_call`. Throws `invalid_input` for more levels than `block_size()`.
    void begin_step(std::int32_t depths) {
        if (depths < 0 || depths > block_size())
            refuse("depths", depths, "the model gives the rows of " + std::to_string(block_size()) + " levels");
        depths_ = depths;
        blocks_.clear();
    }

    /// Tokens of a row, where it has a few.
    [[nodiscard]] std::int32_t candidates() const requires sparse {
        return std::min(model_->candidates(), model_->vocabulary());
    }

    /// See `batched_language_model`: rows of nodes, from those of the first call of the step. O(V) for each, without
    /// the model's part. Throws `invalid_input` for a node that is deeper than `begin_step` was told, or whose root was
    /// not in the first call.
    void forward(step_inputs const& in, std::span<std::int32_t const> sequence_of,
                 std::span<logit> logits) requires(!sparse) {
        copy_rows(in, sequence_of, {}, logits);
        if constexpr (Model::traits.parent_terms)
            if (!in.scored.empty())
                of_requests(in, [&] { model_->add_parent_terms(arguments_.depths, arguments_.tokens, logits); });
    }
    /// See `batched_candidate_model`: the same, O(candidates) for each.
    void forward(step_inputs const& in, std::span<std::int32_t const> sequence_of, std::span<token_id> tokens,
                 std::span<logit> logits) requires sparse {
        copy_rows(in, sequence_of, tokens, logits);
        if constexpr (chosen_after_parent)
            if (!in.scored.empty())
                of_requests(in, [&] {
                    model_->candidates_after(arguments_.blocks, arguments_.depths, arguments_.tokens, tokens, logits);
                });
    }

    /// Nothing: the model keeps what it reads by itself.
    void keep(std::int32_t, std::int32_t, std::span<std::int32_t const>) const noexcept {}

    /// See `observes_features_of_batch`.
    [[nodiscard]] std::int32_t feature_size() const requires observes_features_of_batch<Model> {
        return model_->feature_size();
    }
    /// A text begins.
    void start(std::int32_t sequence) requires observes_features_of_batch<Model> { model_->start(sequence); }
    /// The features of its next tokens.
    void observe(std::int32_t sequence, std::span<float const> features,
                 std::int32_t first) requires observes_features_of_batch<Model> {
        model_->observe(sequence, features, first);
    }

private:
    struct block {
        std::int32_t request;
        std::int32_t root;  ///< its position
    };

    /// Calls the model, which numbers the scored inputs where it throws `failed_request`: the loop numbers requests.
    template <class Call>
    static void of_requests(step_inputs const& in, Call const& call) {
        try {
            call();
        } catch (failed_request const& e) {
            if (e.request < 0 || static_cast<std::size_t>(e.request) >= in.scored.size()) throw;
            auto const input = static_cast<std::size_t>(in.scored[static_cast<std::size_t>(e.request)]);
            throw failed_request(in.requests[input], e.what());
        }
    }

    /// Entries of a row.
    [[nodiscard]] std::size_t width() const {
        if constexpr (sparse)
            return static_cast<std::size_t>(candidates());
        else
            return static_cast<std::size_t>(vocabulary());
    }

    /// Copies the rows of the scored inputs, where they are known, and notes which they are.
    void copy_rows(step_inputs const& in, std::span<std::int32_t const> sequence_of, std::span<token_id> tokens,
                   std::span<logit> logits) {
        std::size_t const entries = in.scored.size() * width();
        if (logits.size() != entries) refuse("logits.size", logits.size(), "there is a row for each scored input");
        if (sparse && tokens.size() != entries) refuse("tokens.size", tokens.size(), "there is a token for each logit");
        if (in.scored.empty()) return;
        if (blocks_.empty()) make_rows(in, sequence_of);
        arguments_.blocks.clear();
        arguments_.depths.clear();
        arguments_.tokens.clear();
        for (std::size_t k = 0; k < in.scored.size(); ++k) {
            auto const input = static_cast<std::size_t>(in.scored[k]);
            auto const its = std::ranges::find(blocks_, in.requests[input], &block::request);
            if (its == blocks_.end())
                refuse("in.requests", in.scored[k], in.requests[input], "its root was not in the first call");
            std::int32_t const depth = in.positions[input] - its->root;
            if (depth < 0 || depth >= depths_)
                refuse("in.positions", in.scored[k], in.positions[input],
                       "the step has " + std::to_string(depths_) + " levels from " + std::to_string(its->root) + " on");
            auto const number = static_cast<std::size_t>(its - blocks_.begin());
            std::size_t const first =
                (number * static_cast<std::size_t>(depths_) + static_cast<std::size_t>(depth)) * width();
            if constexpr (!chosen_after_parent) std::copy_n(base_.data() + first, width(), logits.data() + k * width());
            if constexpr (sparse && !chosen_after_parent)
                std::copy_n(base_tokens_.data() + first, width(), tokens.data() + k * width());
            arguments_.blocks.push_back(static_cast<std::int32_t>(number));
            arguments_.depths.push_back(depth);
            arguments_.tokens.push_back(in.tokens[input]);
        }
    }

    /// The rows of all requests whose roots are in the call.
    void make_rows(step_inputs const& in, std::span<std::int32_t const> sequence_of) {
        std::vector<block> blocks;
        arguments_.sequences.clear();
        arguments_.tokens.clear();
        for (std::int64_t const k : in.scored) {
            auto const input = static_cast<std::size_t>(k);
            blocks.push_back({in.requests[input], in.positions[input]});
            arguments_.sequences.push_back(sequence_of[static_cast<std::size_t>(in.requests[input])]);
            arguments_.tokens.push_back(in.tokens[input]);
        }
        if constexpr (!chosen_after_parent) base_.resize(blocks.size() * static_cast<std::size_t>(depths_) * width());
        of_requests(in, [&] {
            if constexpr (chosen_after_parent) {
                model_->read(arguments_.sequences, arguments_.tokens, depths_);
            } else if constexpr (sparse) {
                base_tokens_.resize(base_.size());
                model_->rows(arguments_.sequences, arguments_.tokens, depths_, std::span<token_id>(base_tokens_),
                             std::span<logit>(base_));
            } else {
                model_->rows(arguments_.sequences, arguments_.tokens, depths_, std::span<logit>(base_));
            }
        });
        blocks_ = std::move(blocks);
    }

    /// The arguments of the model's calls.
    struct arguments {
        std::vector<std::int32_t> sequences, blocks, depths;
        std::vector<token_id> tokens;
    };

    Model* model_;
    std::int32_t depths_ = 0;
    std::vector<block> blocks_;  ///< of the step's requests; empty before its first call
    std::vector<logit> base_;
    std::vector<token_id> base_tokens_;  ///< of the rows' candidates
    arguments arguments_;
};

}  // namespace MULTIDRAFT_NAMESPACE
