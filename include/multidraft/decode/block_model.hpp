// The concept `block_model`: a draft that gives the rows of all depths in one call.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <span>

#include "multidraft/base/config.hpp"
#include "multidraft/decode/language_model.hpp"

namespace MULTIDRAFT_NAMESPACE {

namespace detail {

template <class M>
concept gives_dense_rows = requires(M& model, std::span<token_id const> text, std::span<logit_of<M>> logits) {
    model.rows(text, logits);
};

template <class M>
concept gives_candidate_rows = requires(M& model, std::span<token_id const> text, std::span<token_id> tokens,
                                        std::span<logit_of<M>> logits) {
    model.rows(text, tokens, logits);
};

template <class M>
concept gives_candidates_after = requires(M& model, std::span<token_id const> text, std::int32_t depth, token_id token,
                                          std::span<token_id> tokens, std::span<logit_of<M>> logits) {
    model.read(text, depth);
    model.candidates_after(depth, token, tokens, logits);
};

}  // namespace detail

/// A block model whose rows have a few candidates only: `candidates()` of each, and minus infinity elsewhere.
///
/// `rows(text, tokens, logits)` writes a row's tokens, rising, and their logits; row after row. Where rows have a term
/// of the token before, that decides which tokens are likely: in place of `rows` there are `read(text, depths)`, the
/// call for so many rows, and `candidates_after(depth, token, tokens, logits)`, which writes the candidates of one of
/// them after that token, with its term.
template <class M>
concept gives_candidates = requires(M const& fixed) {
    { fixed.candidates() } -> std::convertible_to<std::int32_t>;
    requires detail::gives_candidate_rows<M> || detail::gives_candidates_after<M>;
};

/// What a block model has beside its rows. The model must have the members that it declares here, and no others of
/// these, so that a misspelt one does not compile.
struct block_traits {
    /// Rows have a term of the token before, which `add_parent_term(depth, token, row)` adds to a copy of row `depth`
    /// ([DSpark]'s Markov head: `low_rank_term`), or `candidates_after`. The node of that depth has this token.
    bool parent_terms = false;
    /// `confidence(depth)` is its estimate that a token drawn from row `depth` is accepted when the node above was. It
    /// depends on the text alone, so shapes by it depend on nothing that is drawn.
    bool confidence = false;
    /// The same where the estimate reads the token before, the node's own: `confidence(depth, token)` ([DSpark]). It
    /// decides about the node's children, so their number depends on the node's own context. It may never read the
    /// children.
    bool confidence_after_token = false;
};

namespace detail {

template <class M>
concept has_parent_term = requires(M& model, std::int32_t depth, token_id token, std::span<logit_of<M>> row) {
    model.add_parent_term(depth, token, row);
}
|| gives_candidates_after<M>;

template <class M>
concept has_confidence = requires(M const& model, std::int32_t depth) {
    { model.confidence(depth) } -> std::convertible_to<double>;
};

template <class M>
concept has_confidence_after_token = requires(M const& model, std::int32_t depth, token_id token) {
    { model.confidence(depth, token) } -> std::convertible_to<double>;
};

template <class M>
concept has_declared_members = requires {
    { M::traits } -> std::convertible_to<block_traits>;
    requires(M::traits.parent_terms == has_parent_term<M>);
    requires(M::traits.confidence == has_confidence<M>);
    requires(M::traits.confidence_after_token == has_confidence_after_token<M>);
};

}  // namespace detail

/// A draft that gives the rows of all depths in one call: Medusa's heads ([Medusa]), block drafters ([DFlash],
/// [DSpark]). For `block_drafter`.
///
/// - `traits`: a static `block_traits`.
/// - `vocabulary()`: V, the target's. `context_limit()`: the largest number of positions.
/// - `block_size()`: how many rows a call gives at most.
/// - `reset()`: a new text begins.
/// - `rows(text, logits)`: writes `logits.size() / V` rows of V logits, from one to `block_size()`. Row d is of the
///   token d + 1 places after the last one of `text`. A model with a cache of the text reads what it has not read. Or,
///   for rows of a few candidates, the members of `gives_candidates`.
///
/// Row d depends on the text alone, or on the token before it too: `adds_parent_terms`. A model that
/// `observes_features` is given them by the loop.
template <class M>
concept block_model = detail::has_declared_members<M> && requires(M& model, M const& fixed) {
    requires detail::gives_dense_rows<M> || gives_candidates<M>;
    { fixed.vocabulary() } -> std::convertible_to<std::int32_t>;
    { fixed.context_limit() } -> std::convertible_to<std::int32_t>;
    { fixed.block_size() } -> std::convertible_to<std::int32_t>;
    model.reset();
};

/// A block model whose rows have a term of the token before.
template <class M>
concept adds_parent_terms = block_model<M> && M::traits.parent_terms;

/// A block model with a head of confidence, by depth.
template <class M>
concept estimates_acceptance = block_model<M> && M::traits.confidence;

/// A block model with a head of confidence that reads the token before.
template <class M>
concept estimates_acceptance_after = block_model<M> && M::traits.confidence_after_token;

}  // namespace MULTIDRAFT_NAMESPACE
