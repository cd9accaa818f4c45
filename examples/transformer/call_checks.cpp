#include "transformer/call_checks.hpp"

#include <string>

#include "multidraft/base/error.hpp"

namespace multidraft::examples {
namespace {

std::size_t size(std::int64_t n) noexcept { return static_cast<std::size_t>(n); }

}  // namespace

void check_batch(call_limits const& limits, token_batch const& batch, std::size_t logit_count, std::int32_t length) {
    auto const [vocabulary_size, context_limit, capacity] = limits;
    std::size_t const n = batch.tokens.size();
    std::size_t const vocabulary = size(vocabulary_size);
    if (batch.positions.size() != n) {
        refuse("positions.size()", batch.positions.size(), "must be that of tokens, " + std::to_string(n));
    }
    if (batch.context < 0 || batch.context > length) {
        refuse("context", batch.context, "must be in [0, " + std::to_string(length) + "], the length of the cache");
    }
    if (n > size(capacity - length)) {
        refuse("tokens.size()", n,
               "the cache has room for " + std::to_string(capacity - length) + " more entries (" +
                   std::to_string(length) + " of " + std::to_string(capacity) + " are taken)");
    }
    if (logit_count % vocabulary != 0 || logit_count / vocabulary > n) {
        refuse(
            "logits.size()", logit_count,
            "must be a multiple of the vocabulary, " + std::to_string(vocabulary) + ", with at most one row a token");
    }
    for (std::size_t i = 0; i < n; ++i) {
        auto const at = static_cast<std::int64_t>(i);
        if (batch.tokens[i] < 0 || batch.tokens[i] >= vocabulary_size) {
            refuse("tokens", at, batch.tokens[i], "must be in [0, " + std::to_string(vocabulary) + ")");
        }
        if (batch.positions[i] < 0 || batch.positions[i] >= context_limit) {
            refuse("positions", at, batch.positions[i],
                   "must be in [0, " + std::to_string(context_limit) + "), the context limit");
        }
    }
    if (batch.mask.causal()) return;
    std::int64_t const columns = length - batch.context + static_cast<std::int64_t>(n);
    if (batch.mask.row_words < (columns + 63) / 64) {
        refuse("mask.row_words", batch.mask.row_words,
               "a row must have a bit for each of the " + std::to_string(columns) + " entries after the context");
    }
    for (std::size_t i = 0; i < n; ++i) {
        // The token's own bit is set, and none after it.
        std::int64_t const own = length - batch.context + static_cast<std::int64_t>(i);
        std::uint64_t const* const row = batch.mask.words + static_cast<std::int64_t>(i) * batch.mask.row_words;
        bool fits = (row[own / 64] >> (own % 64)) == 1;
        for (std::int64_t word = own / 64 + 1; word < (columns + 63) / 64; ++word) fits = fits && row[word] == 0;
        if (!fits) {
            refuse("mask", static_cast<std::int64_t>(i), "row",
                   "a token must attend to itself, entry " + std::to_string(own) +
                       " after the context, and to none after it");
        }
    }
}

void check_kept(std::int32_t context, std::span<std::int32_t const> entries, std::int32_t length) {
    if (context < 0 || context > length) {
        refuse("context", context, "must be in [0, " + std::to_string(length) + "], the length of the cache");
    }
    for (std::size_t k = 0; k < entries.size(); ++k) {
        auto const at = static_cast<std::int64_t>(k);
        if (entries[k] < 0 || entries[k] >= length - context) {
            refuse("entries", at, entries[k],
                   "must be in [0, " + std::to_string(length - context) + "), the entries after the context");
        }
        if (k > 0 && entries[k] <= entries[k - 1])
            refuse("entries", at, entries[k], "must be larger than the one before");
    }
}

}  // namespace multidraft::examples
