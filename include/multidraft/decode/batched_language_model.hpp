// The concept `batched_language_model`: one call for tokens of many sequences, each with its own cache.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

#include "multidraft/base/config.hpp"
#include "multidraft/batch/step_inputs.hpp"
#include "multidraft/decode/language_model.hpp"

namespace MULTIDRAFT_NAMESPACE {

namespace detail {

template <class M>
concept has_sequences = requires(M& model, M const& fixed, std::int32_t sequence, std::span<std::int32_t const> kept) {
    { fixed.vocabulary() } -> std::convertible_to<std::int32_t>;
    { fixed.context_limit() } -> std::convertible_to<std::int32_t>;
    { fixed.sequences() } -> std::convertible_to<std::int32_t>;
    model.keep(sequence, sequence, kept);
};

}  // namespace detail

/// A decoder-only model with a key-value cache for each of several sequences.
///
/// - `vocabulary()`, `context_limit()`: as those of a `language_model`.
/// - `sequences()`: how many caches there are.
/// - `forward(in, sequence_of, logits)`: input k of `in` is written to entry `in.entries[k]` of the cache of sequence
///   `sequence_of[in.requests[k]]` and attends as `step_inputs` says. Writes `in.scored.size()` rows of V logits: those
///   of the scored inputs, one after another. An entry may be written again; then the later call counts.
/// - `keep(sequence, context, entries)`: that cache becomes its first `context` entries followed by the entries
///   `context + entries[k]`, in order, which increase strictly.
///
/// A token's logits are a function of the tokens that it attends to, in the same bits whatever else is in the call. An
/// error of one request alone is thrown as `failed_request`; then no cache counts as changed.
template <class M>
concept batched_language_model = detail::has_sequences<M> &&
    requires(M& model, step_inputs const& in, std::span<std::int32_t const> numbers, std::span<logit_of<M>> logits) {
    model.forward(in, numbers, logits);
};

/// The same with rows of a few candidates, for drafts: `forward(in, sequence_of, tokens, logits)` writes the tokens of
/// a row, `candidates()` of them, rising, and their logits. All other tokens have no mass.
template <class M>
concept batched_candidate_model = detail::has_sequences<M> &&
    requires(M& model, M const& fixed, step_inputs const& in, std::span<std::int32_t const> numbers,
             std::span<token_id> tokens, std::span<logit_of<M>> logits) {
    { fixed.candidates() } -> std::convertible_to<std::int32_t>;
    model.forward(in, numbers, tokens, logits);
};

/// What drafts for many sequences: a model with rows of all tokens, or of a few.
template <class M>
concept batched_draft_model = batched_language_model<M> || batched_candidate_model<M>;

/// Thrown by a `batched_language_model` that cannot go on with one request of a call: the others are not concerned.
class failed_request : public std::runtime_error {
public:
    /// `number`: of the request in the call, as in `step_inputs::requests`.
    failed_request(std::int32_t number, std::string const& reason) : std::runtime_error(reason), request(number) {}

    std::int32_t request;
};

}  // namespace MULTIDRAFT_NAMESPACE
