// A target whose features tell which text they are of, and a head that reads them: a row handed over wrongly throws.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "multidraft/decode/features.hpp"
#include "multidraft/decode/language_model.hpp"
#include "support/table_model.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

/// The features of the last token of a text: its length, and a number that no other short text has.
inline std::vector<float> features_of(std::span<token_id const> text) {
    std::uint32_t h = 1;
    for (token_id const x : text) h = h * 2654435761U + static_cast<std::uint32_t>(x) * 40503U + 77U;
    return {static_cast<float>(text.size()), static_cast<float>(h >> 8)};
}

/// A target that exposes such features.
class feature_target : public table_model<double> {
public:
    using table_model<double>::table_model;

    [[nodiscard]] std::int32_t feature_size() const { return 2; }
    [[nodiscard]] std::span<float const> features() const { return features_; }

    void forward(token_batch const& batch, std::span<double> logits) {
        std::int32_t const first = length();
        table_model<double>::forward(batch, logits);
        features_.clear();
        for (std::size_t i = 0; i < batch.tokens.size(); ++i)
            for (float const x : features_of(seen_by(batch, static_cast<std::int32_t>(i), first)))
                features_.push_back(x);
    }

private:
    std::vector<float> features_;
};
static_assert(exposes_features<feature_target>);

/// What a drafter has observed of a text, checked as it comes: position after position, each with the features of the
/// text up to it as far as `text` goes.
class observed_features {
public:
    void clear() { rows_.clear(); }
    void add(std::span<float const> features, std::span<std::int32_t const> positions) {
        if (positions.empty() || features.size() != 2 * positions.size()) throw std::logic_error("observe: sizes");
        for (std::size_t k = 0; k < positions.size(); ++k) {
            if (positions[k] != size()) throw std::logic_error("observe: a position is missing, or came before");
            rows_.push_back({features[2 * k], features[2 * k + 1]});
        }
    }
    [[nodiscard]] std::int32_t size() const { return static_cast<std::int32_t>(rows_.size()); }
    [[nodiscard]] std::vector<float> const& operator[](std::int32_t position) const {
        return rows_.at(static_cast<std::size_t>(position));
    }
    /// Throws unless these are the features of all tokens of a text but the last.
    void expect_those_of(std::span<token_id const> text) const {
        if (rows_.size() + 1 != text.size()) throw std::logic_error("features of another number of tokens");
        for (std::size_t t = 0; t < rows_.size(); ++t)
            if (rows_[t] != features_of(text.first(t + 1))) throw std::logic_error("features of another text");
    }

private:
    std::vector<std::vector<float>> rows_;
};

/// A head like EAGLE's, a `language_model`: it reads a token together with the state before it, which is the target's
/// feature where there is one, else its own, and makes the next state and the logits of the two.
class feature_head {
public:
    using logit = double;
    using state = std::vector<float>;

    feature_head(std::int32_t vocabulary, std::uint64_t seed) : vocabulary_(vocabulary), seed_(seed) {}

    [[nodiscard]] std::int32_t vocabulary() const { return vocabulary_; }
    [[nodiscard]] std::int32_t context_limit() const { return 1 << 20; }
    [[nodiscard]] std::int32_t length() const { return static_cast<std::int32_t>(states_.size()); }
    [[nodiscard]] std::int32_t feature_size() const { return 2; }
    [[nodiscard]] observed_features const& observed() const { return observed_; }
    /// The logits that the last calls wrote, row after row, since the text began.
    std::vector<std::vector<double>> written;

    /// The state after a token, and the logits there.
    [[nodiscard]] state after(state const& before, token_id token) const {
        std::vector<token_id> const key{static_cast<token_id>(before[0]), static_cast<token_id>(before[1]), token};
        return features_of(key);
    }
    [[nodiscard]] std::vector<double> logits_of(state const& here) const {
        std::vector<token_id> const key{static_cast<token_id>(here[0]), static_cast<token_id>(here[1])};
        auto row = random_conditional(vocabulary_, seed_)(key);
        for (double& x : row) x = std::log(x);
        return row;
    }

    void observe(std::span<float const> features, std::span<std::int32_t const> positions) {
        // The entry of the first token keeps its own input; those after it had states of the head in place of features.
        std::int32_t const known = positions[0] + 1;
        if (length() > known) states_.resize(static_cast<std::size_t>(known));
        observed_.add(features, positions);
    }

    void forward(token_batch const& batch, std::span<double> logits) {
        std::int32_t const first = length();
        std::size_t const rows = logits.size() / static_cast<std::size_t>(vocabulary_);
        for (std::size_t i = 0; i < batch.tokens.size(); ++i) {
            std::int32_t const parent = parent_entry(batch, static_cast<std::int32_t>(i), first);
            std::int32_t const before = batch.positions[i] - 1;
            state input{0, 0};
            if (before >= 0)
                input = before < observed_.size() ? observed_[before] : states_.at(static_cast<std::size_t>(parent));
            if (before >= observed_.size() && before < batch.context)
                throw std::logic_error("forward: the feature before a token of the text is missing");
            states_.push_back(after(input, batch.tokens[i]));
            if (i + rows < batch.tokens.size()) continue;
            auto const row = logits_of(states_.back());
            std::copy(row.begin(), row.end(),
                      logits.begin() + static_cast<std::ptrdiff_t>((i + rows - batch.tokens.size()) * row.size()));
            written.push_back(row);
        }
    }

    void keep(std::int32_t context, std::span<std::int32_t const> entries) {
        std::vector<state> kept(states_.begin(), states_.begin() + context);
        for (std::int32_t const e : entries) kept.push_back(states_.at(static_cast<std::size_t>(context + e)));
        states_ = std::move(kept);
        if (context == 0 && entries.empty()) {
            observed_.clear();
            written.clear();
        }
    }

private:
    std::int32_t vocabulary_;
    std::uint64_t seed_;
    observed_features observed_;
    std::vector<state> states_;  ///< one for each entry of the cache
};
static_assert(language_model<feature_head> && observes_features<feature_head>);

}  // namespace MULTIDRAFT_NAMESPACE::testing
