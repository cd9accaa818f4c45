// The members that a type may have beyond what its concept requires, and the concepts that detect them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"

// Those of groups, functions and rows of trees affect speed, memory and the reporting of errors, never a decision. A
// misspelt member goes unnoticed, so a type that provides one should check it: `static_assert(has_runs<my_row>)`.
//
//   of               member                               concept                     without it
//   ---------------- ------------------------------------ --------------------------- -------------------------------
//   groups           `throws = false`                     may_throw                   errors are thrown, on a host
//   (`group`)        `fast_top_k`, a number               has_fast_top_k              truncation counts, never lists
//                    `top_k_of_logits(n, x, list)`        has_top_k_of_logits         passes for normaliser and check
//                    `counters<N>()`                      has_counters                counters are a local array
//                    `histogram_total(counters)`          has_histogram_total         one counter after the other
//                    `histogram_bin_reaching(counters, w)`has_histogram_bin_reaching  one counter after the other
//                    `count_part(n, first, size, is)`     has_count_part              a sum, entry 0 being the first
//                    `sums_of_one<Real>(n, i)`            has_sums_of_one             summed as other rows are
//                    `sums_from(n, values, total)`        has_sums_from               summed again
//                    `look_ahead(n, body)`                looks_ahead                 operations are done when needed
//                    `nth(n, is, number)`                 has_nth                     by sums and a search
//   functions of an  `in_chunk(b, e)`, `on_run(b, e, f)`  has_runs                    evaluated entry by entry
//   entry (weights,  `is_empty_run(b)`                    has_empty_runs              every run is evaluated
//   residuals)       `may_be_nonzero(i)`                  has_may_be_nonzero          every entry is computed
//                    `is_dense()`                         has_is_dense                `may_be_nonzero` is tested first
//                    `elsewhere()`, `is_elsewhere(b, e)`  has_elsewhere               one form for all entries
//                    `expensive = true`                   is_expensive                taken to be cheap
//   rows             `may_have_mass(i)`                   has_may_have_mass           any token may have mass
//   (`distribution`) `may_have_all_mass()`                has_may_have_all_mass       `may_have_mass` is always tested
//                    `order(i)`                           has_order                   ordered by weight
//                    `order_limit()`                      has_order_limit             all tokens may be taken
//                    `times(factor)`                      has_times                   wrapped in `row_in_units`
//   views, layouts   `allows(i)`                          has_allows                  all tokens are allowed
//                    `idle_bits`, a number                has_idle_bits               every bit of a number may be set
//                    `alignment`, in bytes                has_alignment               entries are read one by one
//   rows of trees    `with_sums(g, node)`                 has_with_sums               one more pass to draw from a row
//   (`row_source`)   `prefetch(g, nodes)`                 has_prefetch                rows are fetched when read
//   verifiers        `scratch_bytes(nodes, depth)`        verify::needs_scratch       called without scratch
//   (`verify::       `reads_draft = false`                verify::reads_draft         the draft's rows are read
//   verifier`)       `lossless = true`                    verify::is_lossless         not taken for lossless
//                    `few_passes = true`                  verify::has_few_passes      decided one node at a time
//   laws             `counts_certain = true`              counts_certain              no child is certain
//   (`draft_law`)    `tokens_differ = true`               tokens_differ               children may be equal
//                    `conditional(g, q, drawn)`           has_conditionals            recursive rejection refuses it
//   samplers         `addressed_by_text = true`           is_addressed_by_text        by the position of the root
//   models           `logit`, a type                      logit_of                    logits are float
//                    `hidden_states()`, `hidden_size()`   reveals_hidden_state        no stop rule may read them
//   CUDA lanes       `max_grid_ranks`                     cuda::exchanges_in_memory   ranks write to each other
//
// The concepts of verifiers, laws, samplers, models and CUDA lanes are declared in their own modules.

namespace MULTIDRAFT_NAMESPACE {

// Of groups.

/// Whether algorithms over this group report bad input by throwing `invalid_input`, on a host. A group whose lanes run
/// inside a launch declares `static constexpr bool throws = false`: an exception must not leave a launch, on a CPU
/// either, so bad input yields the token `none`, as on a device.
template <class G>
inline constexpr bool may_throw = !requires {
    requires !G::throws;
};

/// The largest k for which a group may list the top-k of a row, and a lane keep them.
inline constexpr index_t most_listed = 128;

/// A group that declares by `G::fast_top_k`, at most `most_listed`, up to how many entries its `top_k` is faster than a
/// selection by counting.
template <class G>
concept has_fast_top_k = requires {
    { G::fast_top_k } -> std::convertible_to<index_t>;
};

/// A group that lists the top-k of a row in the only pass over it. `g.top_k_of_logits(n, x, list)` does what `top_k`
/// does, for at most `fast_top_k` entries, and returns false if an entry is NaN or plus infinity or none is above minus
/// infinity. `g.sum_chunks_of(n, weight, list)` is `sum_chunks` of weights that are 0 at all entries but those listed.
template <class G>
concept has_top_k_of_logits = has_fast_top_k<G> &&
    requires(G const& g, index_t n, float (*x)(index_t), span<token_id> list) {
    { g.top_k_of_logits(n, x, list) } -> std::same_as<bool>;
    { g.sum_chunks_of(n, x, list) } -> std::same_as<decltype(g.sum_chunks(n, x))>;
};

/// A group with N counters that all its lanes see, `g.template counters<N>()`, in shared memory for instance. The
/// result has a `data()` and is valid until the next call.
template <class G, std::size_t N>
concept has_counters = requires(G const& g) {
    g.template counters<N>();
};

/// A group that adds up counters by its own method: `g.histogram_total(counters)`.
template <class G, class Counters>
concept has_histogram_total = requires(G const& g, Counters const& counters) {
    { g.histogram_total(counters) } -> std::same_as<std::uint64_t>;
};

/// A group with its own method to find the bin in which the sum from the last bin downwards reaches `wanted`:
/// `g.histogram_bin_reaching(counters, wanted)`. On return `wanted` is what is left to take from that bin.
template <class G, class Counters>
concept has_histogram_bin_reaching = requires(G const& g, Counters const& counters, std::uint64_t& wanted) {
    { g.histogram_bin_reaching(counters, wanted) } -> std::same_as<index_t>;
};

/// A group whose lanes each hold some entries of a row and evaluate functions at those indices only, and that can count
/// within a part of a row: `g.count_part(n, first, size, is)`.
template <class G>
concept has_count_part = requires(G const& g, index_t i, bool (*is)(index_t)) {
    { g.count_part(i, i, i, is) } -> std::same_as<index_t>;
};

/// A group that knows the chunk sums of a row of zeros with a 1 at entry i: `g.template sums_of_one<Real>(n, i)`.
template <class G, class Real>
concept has_sums_of_one = requires(G const& g, index_t i) {
    g.template sums_of_one<Real>(i, i);
};

/// A group that takes the chunk sums of a row of n entries from memory, where an earlier call wrote them:
/// `g.sums_from(n, values, total)`. There are as many values as `kept_sums(n)` says. All lanes can read them.
template <class G, class Real>
concept has_sums_from = requires(G const& g, index_t n, Real const* values) {
    { g.sums_from(n, values, Real(0)) } -> std::same_as<typename G::template chunk_sums_type<Real>>;
};

/// A group whose operations have a high latency however many are done at once, such as ranks that exchange messages.
/// `g.look_ahead(count, body)` announces the operations of `body(k)` for k < count, and the group does them together.
/// The bodies are independent of one another and change nothing that is read. The rows that a body reads identify its
/// node; the results for a node are ready when the algorithm gets to it.
template <class G>
concept looks_ahead = requires(G const& g, index_t count, void (*body)(index_t)) {
    g.look_ahead(count, body);
};

/// A group that finds an entry by its number among those that satisfy a predicate, in fewer operations than sums and a
/// search: `g.nth(n, is, number)` is the index of the `number(count)`-th of them, counted from 1, where `count` is how
/// many there are; `none` where there are none.
template <class G>
concept has_nth = requires(G const& g, index_t n, bool (*is)(index_t), std::uint64_t (*number)(std::uint64_t)) {
    { g.nth(n, is, number) } -> std::same_as<index_t>;
};

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

/// A row with a test for mass that is cheaper than computing it: `row.may_have_mass(i)`.
template <class D>
concept has_may_have_mass = requires(D const& row, index_t i) {
    { row.may_have_mass(i) } -> std::convertible_to<bool>;
};

/// A row that declares by `row.may_have_all_mass()` that testing `may_have_mass` gains nothing.
template <class D>
concept has_may_have_all_mass = requires(D const& row) {
    { row.may_have_all_mass() } -> std::convertible_to<bool>;
};

/// A row whose tokens have an order other than that of the weights: `row.order(i)`, larger values first.
template <class D>
concept has_order = requires(D const& row, index_t i) {
    { row.order(i) } -> std::floating_point;
};

/// A row of which only the first tokens in order may be taken: `row.order_limit()` of them.
template <class D>
concept has_order_limit = requires(D const& row) {
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

/// A view of numbers whose `View::idle_bits` lowest bits are all 0, such as a row of 16-bit numbers read as floats.
template <class View>
concept has_idle_bits = requires {
    { View::idle_bits } -> std::convertible_to<int>;
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
