// What the decoding loops ask of a model: score some tokens against a cache, and keep some of its entries.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <span>

#include "multidraft/core/config.hpp"
#include "multidraft/tree/mask_view.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// Tokens to score in one forward call.
///
/// The model's cache holds `length()` entries when the call begins; the first `context` of them are seen by every token
/// of the batch. The entries after them, `context .. length() + tokens.size()`, belong to the draft tree, the tokens of
/// this batch last. Row i of `mask` (one row per token of the batch) says which of *those* entries token i attends to:
/// bit 0 is entry `context`. With a causal mask (the default) token i attends to everything before it and to itself.
struct token_batch {
    std::span<token_id const> tokens;         ///< the tokens, each in [0, V)
    std::span<std::int32_t const> positions;  ///< their positions in the text (rotary angle), one each
    std::int32_t context = 0;                 ///< cache entries that every token sees; at most `length()`
    mask_view mask{};                         ///< over the entries after the context; causal by default
};

/// The type of a model's logits: `M::logit` where it says so (double for the models of exact tests), else float.
template <class M>
struct logit_type {
    using type = float;
};
/// Of a model that names it.
template <class M>
requires requires { typename M::logit; }
struct logit_type<M> {
    using type = typename M::logit;
};
template <class M>
using logit_of = typename logit_type<M>::type;

/// A decoder-only model with a key-value cache.
///
/// - `vocabulary()`: V, the length of a row of logits.
/// - `context_limit()`: the largest number of positions.
/// - `length()`: entries in the cache.
/// - `forward(batch, logits)`: appends one cache entry per token, in order, and writes `logits.size() / V` rows of V
///   logits, those of the *last* tokens of the batch (a prompt needs one row only; an empty span asks for none).
/// - `keep(context, entries)`: the cache becomes its first `context` entries followed by the entries `context +
///   entries[k]`, in order. `entries` increases strictly. Every other entry is forgotten. `keep(0, {})` resets.
///
/// To get equal texts from equal seeds on every path a model must be batch-invariant: the logits of a token are a
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

}  // namespace MULTIDRAFT_NAMESPACE
