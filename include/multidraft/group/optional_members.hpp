// The members that a type may have beyond what its concept requires, and the concepts that detect them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"

// Those of functions and rows of trees affect speed, memory and the reporting of errors, never a decision. A
// misspelt member goes unnoticed, so a type that provides one should check it: `static_assert(has_runs<my_row>)`.
//
//   of               member                               concept                     without it
//   ---------------- ------------------------------------ --------------------------- -------------------------------
//   functions of an  `in_chunk(b, e)`, `on_run(b, e, f)`  has_runs                    evaluated entry by entry
//   entry (weights,  `is_empty_run(b)`                    has_empty_runs              every run is evaluated
//   residuals)       `may_be_nonzero(i)`                  has_may_be_nonzero          every entry is computed
//                    `is_dense()`                         has_is_dense                `may_be_nonzero` is tested first
//                    `elsewhere()`, `is_elsewhere(b, e)`  has_elsewhere               one form for all entries
//                    `expensive = true`                   is_expensive                taken to be cheap
//   rows             `may_have_mass(i)`,                  sparse_distribution         tokens without mass are found
//   (`distribution`) `may_have_all_mass()`                                            by their mass
//                    `order(i)`, `order_limit()`          has_order                   by weight; all may be taken
//                    `times(factor)`                      has_times                   wrapped in `row_in_units`
//   views, layouts   `allows(i)`                          has_allows                  all tokens are allowed
//                    `alignment`, in bytes                has_alignment               entries are read one by one
//   rows of trees    `with_sums(g, node)`                 has_with_sums               one more pass to draw from a row
//   (`row_source`)   `prefetch(g, nodes)`                 has_prefetch                rows are fetched when read
//   verifiers        `scratch_bytes(nodes, depth)`        verify::needs_scratch       called without scratch
//   (`verify::       `reads_draft = false`                verify::reads_draft         the draft's rows are read
//   verifier`)       `lossless = true`                    verify::is_lossless         not taken for lossless
//   laws             `counts_certain = true`              counts_certain              no child is certain
//   (`draft_law`)    `tokens_differ = true`               tokens_differ               children may be equal
//                    `conditional(g, q, drawn)`           has_conditionals            recursive rejection refuses it
//   samplers         `addressed_by_text = true`           is_addressed_by_text        by the position of the root
//   models           `logit`, a type                      logit_of                    logits are float
//                    `hidden_states()`, `hidden_size()`   reveals_hidden_state        no stop rule may read them
//                    `features()`, `feature_size()`       exposes_features            no drafter may read them
//   block models     `add_parent_term(depth, token, ..)`  has_parent_term             rows depend on the depth alone
//                    `rows(text, tokens, logits)`         gives_candidates            rows have V entries
//                    `confidence(depth)`                  estimates_acceptance        rates hold everywhere
//                    `confidence(depth, token)`           estimates_acceptance_after  the same
//   CUDA lanes       `max_grid_ranks`                     cuda::exchanges_in_memory   ranks write to each other
//
// The concepts of verifiers, laws, samplers, models and CUDA lanes are declared in their own modules,
// `sparse_distribution` in rows/distribution.hpp.

namespace MULTIDRAFT_NAMESPACE {

// Of functions of an entry's index.

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
///
/// Its use is optional for groups. The host group uses it, so that a loop over a run has no test per entry.
template <class F>
concept has_runs = requires(F const& f, index_t i) {
    { f.in_chunk(i, i) } -> std::same_as<F>;
    f.on_run(i, i, detail::any_body{});
};

/// Beside `in_chunk` and `on_run`: `f.is_empty_run(begin)` is true only where no entry of a run counts. There a weight
/// is 0 and a logit minus infinity. It is asked of a function on its chunk (`in_chunk`).
template <class F>
concept has_empty_runs = has_runs<F> && requires(F const& f, index_t i) {
    { f.is_empty_run(i) } -> std::convertible_to<bool>;
};

/// An expensive function with a cheap test for zeros: `f.may_be_nonzero(i)` is false only where f is 0 (for a pair:
/// where it counts nothing).
template <class F>
concept has_may_be_nonzero = requires(F const& f, index_t i) {
    { f.may_be_nonzero(i) } -> std::convertible_to<bool>;
};

/// Beside `may_be_nonzero`: `f.is_dense()` is true where most entries are nonzero, so that testing each is not worth
/// it.
template <class F>
concept has_is_dense = requires(F const& f) {
    { f.is_dense() } -> std::convertible_to<bool>;
};

/// A function that equals a simpler one, `f.elsewhere()`, except at a few entries; `f.is_elsewhere(begin, end)` is true
/// where the two agree on a whole run.
template <class F>
concept has_elsewhere = requires(F const& f, index_t i) {
    { f.is_elsewhere(i, i) } -> std::convertible_to<bool>;
    f.elsewhere();
};

/// A function so expensive that functions composed from it always test `may_be_nonzero`: `F::expensive` is true.
template <class F>
concept is_expensive = requires {
    requires F::expensive;
};

// Of rows, and of the views and layouts they are read through.

/// A row whose tokens have an order other than that of the weights: `row.order(i)`, larger values first. Only the first
/// `row.order_limit()` tokens in this order may be taken.
template <class D>
concept has_order = requires(D const& row, index_t i) {
    { row.order(i) } -> std::floating_point;
    { row.order_limit() } -> std::convertible_to<index_t>;
};

/// A row whose probabilities can be taken as multiples: `row.times(factor)`, a row of the same kind; the factor is a
/// power of two.
template <class D, class Real>
concept has_times = requires(D const& row, Real factor) {
    row.times(factor);
};

/// A view of logits that forbids some tokens: `view.allows(i)`.
template <class View>
concept has_allows = requires(View const& view, index_t i) {
    { view.allows(i) } -> std::convertible_to<bool>;
};

/// A layout whose rows begin at multiples of `Layout::alignment` bytes, so that they may be read so many at a time.
template <class Layout>
concept has_alignment = requires {
    { Layout::alignment } -> std::convertible_to<int>;
};

// Of the rows of a tree.

/// Rows that are normalised when read, and return the chunk sums of the row's weights with it: `rows.with_sums(g,
/// node)` has the members `row` and `sums`.
template <class Rows, class G>
concept has_with_sums = requires(Rows const& rows, G const& g, node_id node) {
    rows.with_sums(g, node).row;
    rows.with_sums(g, node).sums;
};

/// Rows that benefit from knowing the nodes of which one is probably read next: `rows.prefetch(g, nodes)`, with a range
/// of nodes (`node_range`).
template <class Rows, class G, class Nodes>
concept has_prefetch = requires(Rows const& rows, G const& g, Nodes nodes) {
    rows.prefetch(g, nodes);
};

}  // namespace MULTIDRAFT_NAMESPACE
