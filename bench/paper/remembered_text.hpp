// A model that reads nothing twice: the part of a text or tree still in its cache costs nothing after `keep(0, {})`.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/decode/language_model.hpp"

namespace multidraft::bench {

/// Wraps a model for many short runs on one text. Every loop begins with `keep(0, {})` and the prompt; here only the
/// part that differs from the cache is read: the new end of a text, and the nodes from the first one that the last tree
/// did not have.
///
/// `keep` is passed to the model only before another forward call, and a reset never is: discarded entries stay, with
/// their logits, until others replace them. An entry is reused when token, position and the entries that it attends to
/// are the same, and so are all before it. With a batch-invariant model the logits then have the same bits as without
/// the wrapper. The model belongs to the caller; it must not be used otherwise meanwhile.
template <language_model Model>
class remembered_text {
public:
    using logit = logit_of<Model>;

    explicit remembered_text(Model& model) : model_(model) { model_.keep(0, {}); }

    [[nodiscard]] std::int32_t vocabulary() const { return model_.vocabulary(); }
    [[nodiscard]] std::int32_t context_limit() const { return model_.context_limit(); }
    /// Entries as the caller counts them; the model may hold more.
    [[nodiscard]] std::int32_t length() const noexcept { return length_; }

    void forward(token_batch const& batch, std::span<logit> logits) {
        if (!moved_.empty()) settle();
        auto const v = at(vocabulary());
        std::size_t const tokens = batch.tokens.size();
        // Tokens whose logits are not requested.
        std::size_t const silent = tokens - std::min(tokens, logits.size() / v);
        std::size_t known = 0;
        if (tokens == batch.positions.size() && logits.size() <= tokens * v)
            for (; known < tokens && at(length_) + known < entries_.size(); ++known) {
                std::size_t const e = at(length_) + known;
                bool const wanted = known >= silent;
                if ((wanted && !entries_[e].scored) || !same(entries_[e], batch, known)) break;
                if (wanted) std::copy_n(row(e), v, logits.begin() + offset((known - silent) * v));
            }
        length_ += static_cast<std::int32_t>(known);
        if (known == tokens && tokens > 0) return;
        settle();
        token_batch rest = batch;
        rest.tokens = batch.tokens.subspan(known);
        if (known > 0) {
            rest.positions = batch.positions.subspan(known);
            rest.mask = batch.mask.from_row(static_cast<node_id>(known));
            if (batch.mask.causal()) rest.context = length_;
        }
        std::span<logit> const missing = logits.subspan(known > silent ? (known - silent) * v : 0);
        model_.forward(rest, missing);
        length_ = model_.length();
        for (std::size_t i = known; i < tokens; ++i) {
            remember(batch, i);
            entries_.back().scored = i >= silent;
            if (i >= silent) {
                logits_.resize(std::max(logits_.size(), entries_.size() * v));
                std::copy_n(logits.begin() + offset((i - silent) * v), v, row(entries_.size() - 1));
            }
        }
    }

    void keep(std::int32_t context, std::span<std::int32_t const> entries) {
        if (!moved_.empty() && (context > fixed_ || !entries.empty())) settle();
        fixed_ = context;
        moved_.assign(entries.begin(), entries.end());
        length_ = context + static_cast<std::int32_t>(entries.size());
    }

private:
    struct entry {
        token_id token = none;  ///< none: unknown
        std::int32_t position = -1;
        std::vector<std::int32_t> unseen;  ///< entries before it that it does not attend to, in order
        bool scored = false;               ///< its logits are in `logits_`
    };

    static std::size_t at(std::int32_t i) noexcept { return static_cast<std::size_t>(i); }
    static std::ptrdiff_t offset(std::size_t i) noexcept { return static_cast<std::ptrdiff_t>(i); }
    logit* row(std::size_t e) { return logits_.data() + e * at(vocabulary()); }

    /// What token i of a batch, to be the entry `self`, does not attend to.
    void find_unseen(token_batch const& batch, std::size_t i, std::int32_t self) {
        unseen_.clear();
        if (batch.mask.causal()) return;
        for (std::int32_t e = batch.context; e <= self; ++e)
            if (!batch.mask(static_cast<node_id>(i), e - batch.context)) unseen_.push_back(e);
    }

    bool same(entry const& e, token_batch const& batch, std::size_t i) {
        if (e.token != batch.tokens[i] || e.position != batch.positions[i]) return false;
        find_unseen(batch, i, length_ + static_cast<std::int32_t>(i));
        return e.unseen == unseen_;
    }

    void remember(token_batch const& batch, std::size_t i) {
        find_unseen(batch, i, static_cast<std::int32_t>(entries_.size()));
        entries_.push_back({batch.tokens[i], batch.positions[i], unseen_, false});
    }

    /// Discards from the model what the caller has discarded.
    void settle() {
        if (moved_.empty()) {
            if (model_.length() != length_) model_.keep(length_, {});
            entries_.resize(at(length_));
            return;
        }
        model_.keep(fixed_, moved_);
        // Moved entries are no longer remembered; they are read again as text if needed.
        std::size_t still = 0;
        while (still < moved_.size() && moved_[still] == static_cast<std::int32_t>(still)) ++still;
        moved_.clear();
        entries_.resize(at(fixed_) + still);
        entries_.resize(at(length_));
    }

    Model& model_;
    std::vector<entry> entries_;  ///< of the model, one each; the first `length_` are the caller's
    std::vector<logit> logits_;   ///< a row per entry, as far as it is scored
    std::vector<std::int32_t> unseen_;
    std::vector<std::int32_t> moved_;  ///< of the last `keep`, not yet passed to the model
    std::int32_t fixed_ = 0;           ///< and the entries before them
    std::int32_t length_ = 0;
};

}  // namespace multidraft::bench
