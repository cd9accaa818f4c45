// A drafter that reads the target's hidden states and gives the rows of all depths in one call: trees whose shape is
// chosen from these rows, verified without loss at any temperature.
//
// The target counts what follows six characters in a text; its "hidden state" at a token is where it found them. The
// drafter looks there, and adds what tends to follow the character drafted before.
#include <cmath>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "multidraft/decode/autoregressive.hpp"
#include "multidraft/decode/block_drafter.hpp"
#include "multidraft/decode/speculative.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/verify/nested_ranked_block.hpp"

namespace md = multidraft;
using md::token_id;

constexpr std::string_view known =
    "the house that jack built. this is the malt that lay in the house that jack built. this is the rat that ate the "
    "malt that lay in the house that jack built. this is the cat that killed the rat that ate the malt.";
constexpr int characters = 128;

// The engine's model. `features` are those of every token of the last call, one number each.
class target_model {
public:
    int vocabulary() const { return characters; }
    int context_limit() const { return 1 << 16; }
    int length() const { return static_cast<int>(cache_.size()); }
    int feature_size() const { return 1; }
    std::span<float const> features() const { return features_; }

    void forward(md::token_batch const& batch, std::span<float> logits) {
        int const first = length();
        int const tokens = static_cast<int>(batch.tokens.size());
        int const rows = static_cast<int>(logits.size()) / characters;
        cache_.insert(cache_.end(), batch.tokens.begin(), batch.tokens.end());
        features_.clear();
        for (int i = 0; i < tokens; ++i) {
            std::string seen;
            for (int e = 0; e <= first + i; ++e)
                if (e < batch.context || batch.mask.causal() || batch.mask(i, e - batch.context))
                    seen += static_cast<char>(cache_[static_cast<std::size_t>(e)]);
            seen.erase(0, seen.size() > 6 ? seen.size() - 6 : 0);
            std::vector<float> counts(characters, -14.0F);
            std::size_t found = known.size();
            for (std::size_t at = known.find(seen); at != known.npos; at = known.find(seen, at + 1)) {
                if (at + seen.size() == known.size()) break;
                found = at + seen.size();
                counts[static_cast<std::size_t>(known[found])] += 12.0F;
            }
            features_.push_back(static_cast<float>(found));
            int const row = i - (tokens - rows);
            if (row >= 0) std::copy(counts.begin(), counts.end(), logits.begin() + row * characters);
        }
    }
    void keep(int context, std::span<int const> entries) {
        for (std::size_t k = 0; k < entries.size(); ++k)
            cache_[static_cast<std::size_t>(context) + k] = cache_[static_cast<std::size_t>(context + entries[k])];
        cache_.resize(static_cast<std::size_t>(context) + entries.size());
    }

private:
    std::vector<token_id> cache_;
    std::vector<float> features_;
};

// The drafter. It observes the features of the tokens that were kept, and no others.
class drafter_model {
public:
    static constexpr md::block_traits traits{.parent_terms = true};
    int vocabulary() const { return characters; }
    int context_limit() const { return 1 << 16; }
    int block_size() const { return 6; }
    int feature_size() const { return 1; }
    void reset() { place_ = known.size(); }
    void observe(std::span<float const> features, std::span<int const>) {
        place_ = static_cast<std::size_t>(features.back());
    }
    // Row d is of the token d + 1 places after the last one of the text, which has no feature yet.
    void rows(std::span<token_id const>, std::span<float> logits) {
        for (std::size_t d = 0; d < logits.size() / characters; ++d) {
            std::span<float> const row = logits.subspan(d * characters, characters);
            for (float& x : row) x = -6.0F;
            if (place_ + 1 + d < known.size()) row[static_cast<std::size_t>(known[place_ + 1 + d])] += 8.0F;
        }
    }
    void add_parent_term(int, token_id token, std::span<float> row) const {
        for (std::size_t i = 0; i + 1 < known.size(); ++i)
            if (known[i] == token) row[static_cast<std::size_t>(known[i + 1])] += 0.3F;
    }

private:
    std::size_t place_ = known.size();
};
static_assert(md::exposes_features<target_model> && md::block_model<drafter_model> &&
              md::adds_parent_terms<drafter_model> && md::observes_features<drafter_model>);

int main() {
    target_model target;
    drafter_model model;
    using drafter = md::block_drafter<drafter_model, md::draft::stratified, md::best_first_shape>;
    auto loop = md::make_speculative<md::verify::nested_ranked_block<md::law::stratified>>(
        target, drafter(model, md::best_first_shape({.nodes = 12, .children = 3})));
    std::vector<token_id> const prompt{'t', 'h', 'i', 's', ' '};
    md::generation_options options;
    options.max_tokens = 60;
    bool same = true;
    for (float const temperature : {0.0F, 0.8F}) {
        options.sampling.temperature = temperature;
        auto const fast = loop(prompt, options);
        if (temperature == 0.0F) same = fast.tokens == md::autoregressive(target, prompt, options).tokens;
        std::printf("this %s\n", std::string(fast.tokens.begin(), fast.tokens.end()).c_str());
        std::printf("temperature %.1f: %lld target calls and %lld of the drafter for %d tokens\n",
                    static_cast<double>(temperature), static_cast<long long>(fast.metrics.target_calls),
                    static_cast<long long>(fast.metrics.draft_calls), static_cast<int>(fast.tokens.size()));
    }
    return same ? 0 : 1;
}

// Output:
// this is the cat that jack built. this is the cat that jack built.
// temperature 0.0: 12 target calls and 12 of the drafter for 60 tokens
// this is the malt that jack built. this is the malt that jack buil
// temperature 0.8: 17 target calls and 17 of the drafter for 60 tokens
