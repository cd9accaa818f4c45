// The concept `language_model`: score some tokens against a cache, and keep some of its entries.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/tree/mask.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// Tokens to score in one forward call.
///
/// The model's cache holds `length()` entries when the call begins; the first `context` of them are seen by every token
/// of the batch. The entries after them, `context .. length() + tokens.size()`, belong to the draft tree, the tokens of
/// this batch last. Row i of `mask` (one row per token of the batch) marks which of *those* entries token i attends to:
/// bit 0 is entry `context`. With a causal mask (the default) token i attends to everything before it and to itself.
struct token_batch {
    std::span<token_id const> tokens;         ///< the tokens, each in [0, V)
    std::span<std::int32_t const> positions;  ///< their positions in the text (rotary angle), one each
    std::int32_t context = 0;                 ///< cache entries that every token sees; at most `length()`
    mask_view mask{};                         ///< over the entries after the context; causal by default
};

/// The cache entry on whose path token i of a batch is the next one: the last entry besides its own that it attends to;
/// -1 for the first token of a text. `length`: of the cache when the call began. For heads whose input at a token is
/// the token and what was computed at the one before ([EAGLE]). O(1), with a mask O(entries after the context).
[[nodiscard]] inline std::int32_t parent_entry(token_batch const& batch, std::int32_t i, std::int32_t length) {
    std::int32_t entry = length + i - 1;
    if (!batch.mask.causal())
        while (entry >= batch.context && !batch.mask(i, entry - batch.context)) --entry;
    return entry;
}

namespace detail {

template <class M>
struct logit_type {
    using type = float;
};
template <class M>
requires requires { typename M::logit; }
struct logit_type<M> {
    using type = typename M::logit;
};

}  // namespace detail

/// The type of a model's logits: `M::logit` if it is declared (double for the models of exact tests), else float.
template <class M>
using logit_of = typename detail::logit_type<M>::type;

/// A decoder-only model with a key-value cache.
///
/// - `vocabulary()`: V, the length of a row of logits.
/// - `context_limit()`: the largest number of positions.
/// - `length()`: entries in the cache.
/// - `forward(batch, logits)`: appends one cache entry per token, in order, and writes `logits.size() / V` rows of V
///   logits, those of the *last* tokens of the batch (a prompt needs one row only; for an empty span none are written).
/// - `keep(context, entries)`: the cache becomes its first `context` entries followed by the entries `context +
///   entries[k]`, in order. `entries` increases strictly. Every other entry is discarded. `keep(0, {})` resets.
///
/// For equal seeds to give equal texts on every path a model must be batch-invariant: the logits of a token are a
/// function of the tokens it attends to, in the same bits, whatever else is in the batch.
template <class M>
concept language_model = requires(M& model, M const& fixed, token_batch const& batch, std::span<logit_of<M>> logits,
                                  std::int32_t context, std::span<std::int32_t const> entries) {
    { fixed.vocabulary() } -> std::convertible_to<std::int32_t>;
    { fixed.context_limit() } -> std::convertible_to<std::int32_t>;
    { fixed.length() } -> std::convertible_to<std::int32_t>;
    model.forward(batch, logits);
    model.keep(context, entries);
};

/// A model that can expose its logits in its own memory, for loops that read them before the next call:
/// `forward_in_place(batch, rows)` does what `forward` does and returns the last `rows` rows, valid until then.
template <class M>
concept exposes_logits_in_place = requires(M& model, token_batch const& batch, std::int32_t rows) {
    { model.forward_in_place(batch, rows) } -> std::convertible_to<std::span<logit_of<M> const>>;
};

namespace detail {

/// The last `rows` rows of logits of a call: in the model's own memory if it exposes them, else in `room`, which grows.
/// Valid until the next call.
template <language_model M>
[[nodiscard]] std::span<logit_of<M> const> logits_of_call(M& model, token_batch const& batch, std::int32_t rows,
                                                          std::vector<logit_of<M>>& room) {
    if constexpr (exposes_logits_in_place<M>) {
        return model.forward_in_place(batch, rows);
    } else {
        std::size_t const wanted = static_cast<std::size_t>(rows) * static_cast<std::size_t>(model.vocabulary());
        if (room.size() < wanted) room.resize(wanted);
        std::span<logit_of<M>> const logits(room.data(), wanted);
        model.forward(batch, logits);
        return logits;
    }
}

}  // namespace detail

/// Forwards `text[model.length() ..]`, so that the cache holds all of `text`, and writes the last row of logits unless
/// the span is empty.
///
/// Does nothing when nothing is missing. `positions` is scratch.
template <language_model M>
void catch_up(M& model, std::span<token_id const> text, std::vector<std::int32_t>& positions,
              std::span<logit_of<M>> logits) {
    auto const known = static_cast<std::int32_t>(model.length());
    auto const missing = text.subspan(static_cast<std::size_t>(known));
    if (missing.empty()) return;
    positions.resize(missing.size());
    std::iota(positions.begin(), positions.end(), known);
    model.forward(token_batch{missing, positions, known, {}}, logits);
}

}  // namespace MULTIDRAFT_NAMESPACE
