// A language model with a known law: its logits are a function of the whole sequence that a token attends to.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <span>
#include <stdexcept>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/decode/language_model.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

/// Probabilities of the next token after a sequence.
using conditional = std::function<std::vector<double>(std::span<token_id const>)>;

/// Probabilities that depend on the last `order` tokens, made from a seed; about one in `sparsity` is zero (0: none).
inline conditional random_conditional(std::int32_t vocabulary, std::uint64_t seed, int order = 2, int sparsity = 0,
                                      double sharpness = 1.0) {
    return [=](std::span<token_id const> context) {
        std::uint64_t h = seed * 0x9e3779b97f4a7c15UL + 1;
        auto const first =
            context.size() > static_cast<std::size_t>(order) ? context.size() - static_cast<std::size_t>(order) : 0;
        for (auto i = first; i < context.size(); ++i)
            h = (h ^ static_cast<std::uint64_t>(context[i] + 1)) * UINT64_C(0xbf58476d1ce4e5b9);
        std::vector<double> p(static_cast<std::size_t>(vocabulary));
        double sum = 0;
        for (auto& x : p) {
            h += 0x9e3779b97f4a7c15UL;
            std::uint64_t z = h;
            z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9UL;
            z = (z ^ (z >> 27)) * 0x94d049bb133111ebUL;
            z ^= z >> 31;
            double const u = static_cast<double>(z >> 11) * 0x1p-53;
            x = std::exp(sharpness * 3.0 * u);
            if (sparsity > 0 && z % static_cast<std::uint64_t>(sparsity) == 0 && &x != &p.front()) x = 0;
            sum += x;
        }
        for (auto& x : p) x /= sum;
        return p;
    };
}

/// Satisfies `language_model`. The cache stores tokens; a wrong mask, position or cache entry changes the law or
/// throws.
template <class Logit = double>
class table_model {
public:
    using logit = Logit;

    table_model(std::int32_t vocabulary, conditional law, std::int32_t context_limit = 1 << 20)
        : law_(std::move(law)), vocabulary_(vocabulary), context_limit_(context_limit) {}

    [[nodiscard]] std::int32_t vocabulary() const { return vocabulary_; }
    [[nodiscard]] std::int32_t context_limit() const { return context_limit_; }
    [[nodiscard]] std::int32_t length() const { return static_cast<std::int32_t>(cache_.size()); }

    void forward(token_batch const& batch, std::span<Logit> logits) {
        ++calls;
        auto const rows = logits.size() / static_cast<std::size_t>(vocabulary_);
        if (rows > batch.tokens.size() || batch.context > length() || batch.tokens.size() != batch.positions.size())
            throw std::logic_error("forward: shapes");
        auto const first = static_cast<std::int32_t>(cache_.size());
        for (auto const t : batch.tokens) cache_.push_back(t);
        for (std::size_t i = 0; i < batch.tokens.size(); ++i) {
            auto const seen = seen_by(batch, static_cast<std::int32_t>(i), first);
            if (batch.positions[i] != static_cast<std::int32_t>(seen.size()) - 1)
                throw std::logic_error("forward: a position is not the number of tokens attended to");
            if (batch.positions[i] >= context_limit_) throw std::logic_error("forward: position beyond the context");
            if (i + rows < batch.tokens.size()) continue;
            auto const p = law_(seen);
            auto const row = i + rows - batch.tokens.size();
            for (std::size_t x = 0; x < p.size(); ++x) logits[row * p.size() + x] = static_cast<Logit>(std::log(p[x]));
        }
    }

    void keep(std::int32_t context, std::span<std::int32_t const> entries) {
        std::vector<token_id> kept(cache_.begin(), cache_.begin() + context);
        for (std::size_t k = 0; k < entries.size(); ++k) {
            if (k > 0 && entries[k] <= entries[k - 1]) throw std::logic_error("keep: entries must increase");
            kept.push_back(cache_.at(static_cast<std::size_t>(context + entries[k])));
        }
        cache_ = std::move(kept);
    }

    [[nodiscard]] std::span<token_id const> cache() const { return cache_; }
    /// The tokens that token i of the last batch attended to, its own last; `first`: the cache's length before it.
    [[nodiscard]] std::vector<token_id> seen_by(token_batch const& batch, std::int32_t i, std::int32_t first) const {
        std::vector<token_id> seen;
        for (std::int32_t e = 0; e <= first + i; ++e)
            if (e < batch.context || batch.mask.causal() || batch.mask(i, e - batch.context))
                seen.push_back(cache_[static_cast<std::size_t>(e)]);
        return seen;
    }
    std::int64_t calls = 0;

private:
    conditional law_;
    std::vector<token_id> cache_;
    std::int32_t vocabulary_;
    std::int32_t context_limit_;
};

static_assert(language_model<table_model<double>>);
static_assert(language_model<table_model<float>>);

}  // namespace MULTIDRAFT_NAMESPACE::testing
