// A model of your own: with `forward` and `keep` the generation loops accept any model.
//
// The models here are n-gram counts of a text: the target uses six characters of context, the draft three. The cache
// holds the tokens themselves; a transformer keeps keys and values instead and treats the mask alike.
#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "multidraft/decode/autoregressive.hpp"
#include "multidraft/decode/speculative.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/tree/shapes.hpp"
#include "multidraft/verify/recursive_rejection.hpp"

namespace md = multidraft;

class character_model {
public:
    /// Learns how often a character follows the `order` ones before it.
    character_model(std::string_view text, std::size_t order) : text_(text), order_(order) {}

    std::int32_t vocabulary() const { return 128; }
    std::int32_t context_limit() const { return 1 << 16; }
    std::int32_t length() const { return static_cast<std::int32_t>(cache_.size()); }

    /// One cache entry per token; logits for the last tokens of the batch.
    void forward(md::token_batch const& batch, std::span<float> logits) {
        auto const width = static_cast<std::size_t>(vocabulary());
        std::size_t const rows = logits.size() / width;
        std::int32_t const first = length();
        cache_.insert(cache_.end(), batch.tokens.begin(), batch.tokens.end());
        for (std::size_t row = 0; row < rows; ++row) {
            std::size_t const token = batch.tokens.size() - rows + row;
            score(seen_by(batch, token, first), logits.subspan(row * width, width));
        }
    }

    /// The cache becomes its first `context` entries and then those listed.
    void keep(std::int32_t context, std::span<std::int32_t const> entries) {
        for (std::size_t k = 0; k < entries.size(); ++k)
            cache_[static_cast<std::size_t>(context) + k] = cache_[static_cast<std::size_t>(context + entries[k])];
        cache_.resize(static_cast<std::size_t>(context) + entries.size());
    }

private:
    /// The characters that a token of the batch attends to: the context, and the rest by the mask.
    std::string seen_by(md::token_batch const& batch, std::size_t token, std::int32_t first) const {
        std::string seen;
        std::int32_t const self = first + static_cast<std::int32_t>(token);
        for (std::int32_t e = 0; e <= self; ++e)
            if (e < batch.context || batch.mask.causal() ||
                batch.mask(static_cast<md::node_id>(token), e - batch.context))
                seen += static_cast<char>(cache_[static_cast<std::size_t>(e)]);
        return seen;
    }

    void score(std::string_view seen, std::span<float> logits) const {
        for (float& logit : logits) logit = -4.0F;
        seen.remove_prefix(seen.size() > order_ ? seen.size() - order_ : 0);
        for (std::size_t at = text_.find(seen); at != text_.npos; at = text_.find(seen, at + 1))
            if (at + seen.size() < text_.size()) logits[static_cast<unsigned char>(text_[at + seen.size()])] += 1.5F;
    }

    std::string_view text_;
    std::size_t order_;
    std::vector<md::token_id> cache_;
};
static_assert(md::language_model<character_model>);

int main() {
    std::string_view const text =
        "the house that jack built. this is the malt that lay in the house that jack built. this is the rat that ate "
        "the malt that lay in the house that jack built. this is the cat that killed the rat that ate the malt.";
    character_model target(text, 6);
    character_model draft(text, 3);
    std::vector<md::token_id> const prompt{'t', 'h', 'i', 's', ' '};
    md::generation_options options;
    options.max_tokens = 60;
    options.sampling.temperature = 0.0F;

    auto loop = md::make_speculative<md::draft::sequential, md::verify::recursive_rejection<md::law::sequential>>(
        target, draft, md::chain(4));
    auto const fast = loop(prompt, options);
    auto const slow = md::autoregressive(target, prompt, options);

    std::string const result(fast.tokens.begin(), fast.tokens.end());
    std::printf("this %s\n", result.c_str());
    std::printf("%lld target calls for %d tokens; token for token what the target alone writes: %s\n",
                static_cast<long long>(fast.metrics.target_calls), static_cast<int>(fast.tokens.size()),
                fast.tokens == slow.tokens ? "yes" : "no");
    return fast.tokens == slow.tokens ? 0 : 1;
}

// Output:
// this is the cat that jack built. this is the cat that jack built.
// 16 target calls for 60 tokens; token for token what the target alone writes: yes
