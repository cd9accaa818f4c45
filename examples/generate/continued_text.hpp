// A model that keeps its cache from text to text, for texts that begin as the last one did: the turns of a
// conversation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "multidraft/base/config.hpp"
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
        if (known == batch.tokens.size()) return;
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

private:
    Model& model_;
    std::vector<token_id> text_;  ///< the tokens of the model's entries, of which the caller's are the first `length_`
    std::int32_t length_ = 0;
};

}  // namespace multidraft::examples
