// Models that keep their caches from text to text, for texts that begin as the last one did: the turns of a
// conversation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/decode/block_model.hpp"
#include "multidraft/decode/features.hpp"
#include "multidraft/decode/language_model.hpp"

namespace multidraft::examples {

/// Wraps a model. Every loop begins with `keep(0, {})` and the prompt; here the entries stay, and of the prompt only
/// what differs from them is read. With a batch-invariant model the logits have the same bits. The model belongs to the
/// caller and must not be used otherwise meanwhile.
template <language_model Model>
class continued_text {
public:
    using logit = logit_of<Model>;

    explicit continued_text(Model& model) : model_(model) { model_.keep(0, {}); }

    [[nodiscard]] std::int32_t vocabulary() const { return model_.vocabulary(); }
    [[nodiscard]] std::int32_t context_limit() const { return model_.context_limit(); }
    /// Entries as the caller counts them; the model may hold more.
    [[nodiscard]] std::int32_t length() const noexcept { return length_; }

    void forward(token_batch const& batch, std::span<logit> logits) {
        std::size_t known = 0;
        // After a reset, tokens whose logits are not wanted and whose entries are there.
        std::size_t const rows = logits.size() / static_cast<std::size_t>(vocabulary());
        bool const plain = batch.mask.causal() && batch.positions.size() == batch.tokens.size();
        auto const at = [&](std::size_t i) { return static_cast<std::size_t>(length_) + i; };
        if (plain)
            while (known + rows < batch.tokens.size() && at(known) < text_.size() &&
                   batch.tokens[known] == text_[at(known)] &&
                   batch.positions[known] == static_cast<std::int32_t>(at(known)))
                ++known;
        length_ += static_cast<std::int32_t>(known);
        text_.resize(static_cast<std::size_t>(length_));
        if (model_.length() != length_) model_.keep(length_, {});
        reads_ = known < batch.tokens.size();
        if (!reads_) return;
        token_batch rest = batch;
        if (known > 0) {
            rest.tokens = batch.tokens.subspan(known);
            rest.positions = batch.positions.subspan(known);
            rest.context = length_;
        }
        model_.forward(rest, logits);
        text_.insert(text_.end(), rest.tokens.begin(), rest.tokens.end());
        length_ = model_.length();
    }

    void keep(std::int32_t context, std::span<std::int32_t const> entries) {
        if (context == 0 && entries.empty()) {
            length_ = 0;
            return;
        }
        model_.keep(context, entries);
        for (std::size_t k = 0; k < entries.size(); ++k)
            text_[static_cast<std::size_t>(context) + k] = text_[static_cast<std::size_t>(context + entries[k])];
        length_ = model_.length();
        text_.resize(static_cast<std::size_t>(length_));
    }

    /// Those of the tokens that the last `forward` read, its last ones: for a `continued_drafter`, which has observed
    /// those of the others.
    [[nodiscard]] std::int32_t feature_size() const requires exposes_features<Model> { return model_.feature_size(); }
    [[nodiscard]] std::span<float const> features() const requires exposes_features<Model> {
        return reads_ ? std::span<float const>(model_.features()) : std::span<float const>();
    }

private:
    Model& model_;
    std::vector<token_id> text_;  ///< the tokens of the model's entries, of which the caller's are the first `length_`
    std::int32_t length_ = 0;
    bool reads_ = false;  ///< the last call
};

/// Wraps a block model of a `continued_text`, with `keep` and `observed` (`block_drafter_model`): what it has observed
/// of the tokens that the target knows stays. The model belongs to the caller and must not be used otherwise meanwhile.
template <block_model Model>
class continued_drafter {
public:
    using logit = logit_of<Model>;
    static constexpr block_traits traits = Model::traits;

    explicit continued_drafter(Model& model) : model_(model) { model_.reset(); }

    [[nodiscard]] std::int32_t vocabulary() const { return model_.vocabulary(); }
    [[nodiscard]] std::int32_t context_limit() const { return model_.context_limit(); }
    [[nodiscard]] std::int32_t block_size() const { return model_.block_size(); }
    [[nodiscard]] std::int32_t feature_size() const { return model_.feature_size(); }

    /// A new text begins; what it has in common with the last one is known when its features come.
    void reset() noexcept { observed_ = 0; }

    /// Features of the last ones of these positions; those of the first ones are known.
    void observe(std::span<float const> features, std::span<std::int32_t const> positions) {
        std::size_t const known = positions.size() - features.size() / static_cast<std::size_t>(feature_size());
        forget(observed_ + static_cast<std::int32_t>(known));
        model_.observe(features, positions.subspan(known));
        observed_ += static_cast<std::int32_t>(positions.size());
    }

    [[nodiscard]] std::int32_t candidates() const requires gives_candidates<Model> { return model_.candidates(); }

    /// `rows` and `add_parent_term` of the model.
    void rows(std::span<token_id const> text, std::span<float> logits) requires requires(Model& m) {
        m.rows(text, logits);
    }
    {
        forget(observed_);
        model_.rows(text, logits);
    }
    void add_parent_term(std::int32_t depth, token_id token, std::span<float> row) requires requires(Model& m) {
        m.add_parent_term(depth, token, row);
    }
    { model_.add_parent_term(depth, token, row); }

    /// `read` and `candidates_after` of the model, where its rows have a few candidates.
    void read(std::span<token_id const> text, std::int32_t depths) requires gives_candidates<Model> {
        forget(observed_);
        model_.read(text, depths);
    }
    void candidates_after(std::int32_t depth, token_id token, std::span<token_id> tokens,
                          std::span<float> logits) requires gives_candidates<Model> {
        model_.candidates_after(depth, token, tokens, logits);
    }

private:
    void forget(std::int32_t from) {
        if (model_.observed() != from) model_.keep(from);
    }

    Model& model_;
    std::int32_t observed_ = 0;  ///< as the caller counts; the model may have observed more
};

/// A target and its drafter whose caches are kept.
template <language_model Target, block_model Drafter>
struct continued_pair {
    continued_pair(Target& of_target, Drafter& of_drafter) : target(of_target), drafter(of_drafter) {}

    continued_text<Target> target;
    continued_drafter<Drafter> drafter;
};

}  // namespace multidraft::examples
