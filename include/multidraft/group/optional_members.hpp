// The members that a type may have beyond what its concept requires, and the concepts that detect them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"

// They affect speed and memory, never a decision. A misspelt one goes unnoticed, so a type that provides one should
// check it: `static_assert(has_runs<my_row>)`.
//
//   of               member                               concept                     without it
//   ---------------- ------------------------------------ --------------------------- -------------------------------
//   functions of an  `in_chunk(b, e)`, `on_run(b, e, f)`, has_runs                    evaluated entry by entry
//   entry (weights,  `is_empty_run(b)`
//   residuals)       `may_be_nonzero(i)`, `is_dense()`    has_may_be_nonzero          every entry is computed
//                    `candidates()`, `only(k)`            finite_at_candidates        all n entries may be finite
//   rows             `may_have_mass(i)`,                  sparse_distribution         tokens without mass are found
//   (`distribution`) `may_have_all_mass()`                                            by their mass
//                    `order(i)`, `order_limit()`          has_order                   by weight; all may be taken
//                    `candidates()`, `only(k)`            lists_candidates            all V tokens may have mass
//   rows of trees    `with_sums(g, node)`                 has_with_sums               one more pass to draw from a row
//   verifiers        `scratch_bytes(nodes, depth)`        verify::needs_scratch       called without scratch
//   models           `logit`, a type                      logit_of                    logits are float
//   communicators    `start_all_to_all(..)`               shards::has_all_to_all      columns are sent to all ranks
//
// What an algorithm demands of a type beyond its concept is not optional there, and a misspelt one does not compile:
//
//   of               member                               concept                     demanded by
//   ---------------- ------------------------------------ --------------------------- -------------------------------
//   laws             `conditional(g, q, drawn)`           gives_conditionals          recursive rejection of such a law
//   models           `hidden_states()`, `hidden_size()`   reveals_hidden_state        stop rules
//                    `features()`, `feature_size()`       exposes_features            drafters that observe them
//   block models     `rows(text, tokens, logits)`         gives_candidates            instead of rows of V logits
//
// What laws, verifiers and block models say of themselves is one typed member, `traits`: `law_traits`,
// `verify::verifier_traits`, `block_traits`.
// The concepts are declared where what they are of is; those of functions are here.

namespace MULTIDRAFT_NAMESPACE {

namespace detail {

struct any_body {
    template <class F>
    MULTIDRAFT_HD void operator()(F const&) const noexcept {}
};

}  // namespace detail

/// A function of an entry's index that has a cheaper form on a run of adjacent entries.
///
/// - `f.in_chunk(begin, end)`: the same function, for the entries of one chunk (`chunk_size`, from a multiple of it
/// on).
/// - `f.on_run(begin, end, body)`: calls `body(here)` once, where `here(i)` equals `f(i)` for begin <= i < end. `begin`
///   is a multiple of `run_length` and the run has `run_length` entries at most. `here` lives as long as the call.
/// - `f.is_empty_run(begin)`: true only where no entry of the run counts: weights of 0, or logits of minus infinity.
///   It is asked of a function on its chunk.
///
/// Its use is optional for groups. The host group uses it, so that a loop over a run has no test per entry.
template <class F>
concept has_runs = requires(F const& f, index_t i) {
    { f.in_chunk(i, i) } -> std::same_as<F>;
    f.on_run(i, i, detail::any_body{});
    { f.is_empty_run(i) } -> std::convertible_to<bool>;
};

/// An expensive function with a cheap test for zeros: `f.may_be_nonzero(i)` is false only where f is 0 (for a pair:
/// where it counts nothing). `f.is_dense()` is true where most entries are nonzero, so that testing each is not worth
/// it.
template <class F>
concept has_may_be_nonzero = requires(F const& f, index_t i) {
    { f.may_be_nonzero(i) } -> std::convertible_to<bool>;
    { f.is_dense() } -> std::convertible_to<bool>;
};

/// A function that is minus infinity but at a few entries, which rise: `f.candidates()`. `f.only(k)` is the function
/// with the k-th of these alone, and finds its value without a search.
template <class F>
concept finite_at_candidates = requires(F const& f, index_t k) {
    { f.candidates() } -> std::convertible_to<span<token_id const>>;
    { f.only(k) } -> std::same_as<F>;
};

namespace detail {

/// A function that equals a simpler one, `f.elsewhere()`, except at a few entries; `f.is_elsewhere(begin, end)` is true
/// where the two agree on a whole run.
template <class F>
concept has_elsewhere = requires(F const& f, index_t i) {
    { f.is_elsewhere(i, i) } -> std::convertible_to<bool>;
    f.elsewhere();
};

}  // namespace detail

}  // namespace MULTIDRAFT_NAMESPACE
