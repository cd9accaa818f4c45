// Rows of a batch in place: logits, with masks and biases or without, and probabilities.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/adjusted_view.hpp"
#include "multidraft/rows/candidate_view.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/rows/low_rank_term.hpp"
#include "multidraft/rows/probabilities.hpp"
#include "multidraft/rows/row_source.hpp"
#include "multidraft/rows/row_view.hpp"
#include "multidraft/rows/sampling_params.hpp"
#include "multidraft/rows/softmax.hpp"
#include "multidraft/rows/widened_row.hpp"
#include "multidraft/verify/traits.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// Sampling parameters as separate arrays, such as a server's tensors of temperatures, top-k, top-p and min-p. For a
/// null array the parameter of `otherwise` is used. Nothing is owned.
///
/// The values have the meaning described at `sampling_params`. A top-k of at least the vocabulary's size keeps every
/// token, like 0.
struct sampling_arrays {
    float const* temperature = nullptr;
    index_t const* top_k = nullptr;
    float const* top_p = nullptr;
    float const* min_p = nullptr;

    /// The parameters at one index of the arrays.
    [[nodiscard]] MULTIDRAFT_HD sampling_params operator()(std::int64_t slot,
                                                           sampling_params const& otherwise) const noexcept {
        sampling_params result = otherwise;
        if (temperature != nullptr) result.temperature = temperature[slot];
        if (top_k != nullptr) result.top_k = top_k[slot];
        if (top_p != nullptr) result.top_p = top_p[slot];
        if (min_p != nullptr) result.min_p = min_p[slot];
        return result;
    }
};

/// The sampling parameters of the requests of a batch: entry b of `sampling` for request b or, where that is null, of
/// `arrays`. With `slot_of` it is entry `slot_of[b]`, for engines that keep parameters by the request's slot in the
/// batch.
struct batch_sampling {
    sampling_params const* sampling = nullptr;  ///< one per request; may be null: `default_sampling` for all
    sampling_params default_sampling{};         ///< where `sampling` is null
    sampling_arrays arrays{};                   ///< where `sampling` is null; its null arrays mean the default
    std::int32_t const* slot_of = nullptr;      ///< may be null

    /// The parameters of request b.
    [[nodiscard]] MULTIDRAFT_HD sampling_params sampling_of(std::int32_t b) const noexcept {
        std::int64_t const slot = slot_of == nullptr ? b : slot_of[b];
        return sampling == nullptr ? arrays(slot, default_sampling) : sampling[slot];
    }
};

/// Rows of a batch as distributions: `rows(g, i, b)` is the distribution of node i of the batch, numbered across all
/// requests, which belongs to request b; `rows.vocabulary` is the number of entries of a row. `logit_batch`,
/// `prepared_batch` and `probability_batch` model it, and so may an engine's own type. Rows that are normalised when
/// read may have `rows.with_sums(g, i, b)`, the row with the chunk sums of its weights.
template <class R>
concept row_batch = requires(R const& rows, host_group const& g, std::int64_t i, std::int32_t b) {
    { rows.vocabulary } -> std::convertible_to<index_t>;
    { rows(g, i, b) } -> distribution;
};

/// What all batches of rows in memory have: where the rows are, and which one a node has. T is the type of an entry.
///
/// Row r begins at `data + r * stride()` entries. Node i of the batch has row `row_of[i]`, or row i where `row_of` is
/// null. So a draft needs rows for nodes with children only, and rows of a pool need not be copied. In `draft_batch` i
/// is the entry of the level. Nothing is owned.
template <class T, class Layout = contiguous>
struct rows_of_batch {
    using element = T;
    using layout_type = Layout;

    T const* data = nullptr;
    std::int64_t row_stride = 0;  ///< 0: `vocabulary`, rows one after another; else at least that
    index_t vocabulary = 0;
    std::int64_t const* row_of = nullptr;  ///< may be null
    Layout layout{};                       ///< how the entries of a row are laid out

    /// The index of node i's row.
    [[nodiscard]] MULTIDRAFT_HD std::int64_t row(std::int64_t i) const noexcept {
        return row_of == nullptr ? i : row_of[i];
    }
    /// Entries from one row to the next.
    [[nodiscard]] MULTIDRAFT_HD std::int64_t stride() const noexcept {
        return detail::stride_of_rows(row_stride, vocabulary);
    }
    /// The entries of that row.
    [[nodiscard]] MULTIDRAFT_HD row_view<T, Layout> view(std::int64_t i) const noexcept {
        return {data + row(i) * stride(), vocabulary, layout};
    }
    /// The same rows under another layout.
    template <class Other>
    [[nodiscard]] rows_of_batch<T, Other> in_layout() const noexcept {
        return {data, stride(), vocabulary, row_of};
    }
};

/// Rows of logits that are normalised when they are read, with the sampling parameters of each request. `Self` has the
/// rows, `view(i)`; T is float, double, `float16` or `bfloat16` (CUDA: not double).
template <class Self, class T, class Layout>
struct logits_of_batch : rows_of_batch<T, Layout>, batch_sampling {
    logits_of_batch() = default;
    /// The fields of `rows_of_batch` and `batch_sampling`: `logit_batch<float>(data, row_stride, vocabulary)`.
    MULTIDRAFT_HD constexpr logits_of_batch(T const* first, std::int64_t stride_of_rows, index_t size,
                                            std::int64_t const* row_of_node = nullptr,
                                            sampling_params const* of_requests = nullptr,
                                            sampling_params const& of_all = {}, Layout of_rows = {}) noexcept
        : rows_of_batch<T, Layout>{first, stride_of_rows, size, row_of_node, of_rows},
          batch_sampling{of_requests, of_all, {}, nullptr} {}
    /// Rows with the parameters of their requests, by name: `logit_batch<float>({.data = p, .vocabulary = 32000},
    /// {.default_sampling = {.temperature = 0.8F}})`.
    MULTIDRAFT_HD constexpr logits_of_batch(rows_of_batch<T, Layout> const& rows,
                                            batch_sampling const& parameters) noexcept
        : rows_of_batch<T, Layout>(rows), batch_sampling(parameters) {}
    /// Rows with the parameters of `sampling_params{}`.
    MULTIDRAFT_HD constexpr explicit logits_of_batch(rows_of_batch<T, Layout> const& rows) noexcept
        : rows_of_batch<T, Layout>(rows) {}

    /// The distribution of node i, of request b, with the chunk sums of its weights (`process_logits`).
    template <group G>
    [[nodiscard]] MULTIDRAFT_HD auto with_sums(G const& g, std::int64_t i, std::int32_t b) const {
        return process_logits(g, static_cast<Self const&>(*this).view(i), this->sampling_of(b));
    }
    /// The distribution of node i, of request b.
    template <group G>
    [[nodiscard]] MULTIDRAFT_HD auto operator()(G const& g, std::int64_t i, std::int32_t b) const {
        return with_sums(g, i, b).row;
    }
};

/// Rows of logits. Target and draft have their own sampling parameters.
template <class T, class Layout = contiguous>
struct logit_batch : logits_of_batch<logit_batch<T, Layout>, T, Layout> {
    using logits_of_batch<logit_batch, T, Layout>::logits_of_batch;
};

/// Rows of probabilities.
template <class T, class Layout = contiguous>
struct probability_batch : rows_of_batch<T, Layout> {
    probability_batch() = default;
    /// The fields of `rows_of_batch` in order.
    MULTIDRAFT_HD constexpr probability_batch(T const* first, std::int64_t stride_of_rows, index_t size,
                                              std::int64_t const* row_of_node = nullptr, Layout of_rows = {}) noexcept
        : rows_of_batch<T, Layout>{first, stride_of_rows, size, row_of_node, of_rows} {}
    /// The rows as probabilities: `probability_batch<float>({.data = p, .vocabulary = 32000})`.
    MULTIDRAFT_HD constexpr explicit probability_batch(rows_of_batch<T, Layout> const& rows) noexcept
        : rows_of_batch<T, Layout>(rows) {}

    /// The distribution of node i.
    template <group G>
    [[nodiscard]] MULTIDRAFT_HD probabilities<T, Layout> operator()(G const&, std::int64_t i, std::int32_t) const {
        return probabilities<T, Layout>(this->view(i));
    }
};

namespace detail {

/// Rows in memory, from `data` on.
template <class Rows>
concept has_data = requires(Rows const& rows) {
    rows.data;
};

/// Rows of logits with the state of each after processing (`prepared_batch`).
template <class Rows>
concept has_states = requires(Rows const& rows) {
    rows.states;
};

/// Whole rows in memory, a stride apart.
template <class Rows>
concept has_stride = requires(Rows const& rows) {
    { rows.stride() } -> std::convertible_to<std::int64_t>;
    typename Rows::layout_type;
};

/// Rows with an index for each node: `row_of[i]`.
template <class Rows>
concept has_row_of = requires(Rows const& rows, std::int64_t i) {
    { rows.row_of[i] } -> std::convertible_to<std::int64_t>;
};

/// Rows of logits with the sampling parameters of each request.
template <class Rows>
concept has_sampling = requires(Rows const& rows, std::int32_t b) {
    { rows.sampling_of(b) } -> std::same_as<sampling_params>;
};

/// Rows whose sampling parameters are indexed by slot.
template <class Rows>
concept has_slots = requires(Rows const& rows, std::int32_t b) {
    { rows.slot_of[b] } -> std::convertible_to<std::int32_t>;
};

/// Rows whose entries have a type, `element`.
template <class Rows>
concept has_element = requires {
    typename Rows::element;
};

}  // namespace detail

/// Rows of logits that drafts can be drawn from: `logit_batch`, or the same with masks and biases (`adjusted_batch`).
template <class R>
concept logit_row_batch = row_batch<R> && detail::has_sampling<R> && detail::has_element<R> &&
    requires(R const& rows, host_group const& g, std::int64_t i, std::int32_t b) {
    { rows.row(i) } -> std::convertible_to<std::int64_t>;
    rows.with_sums(g, i, b);
};

/// The types accepted as the draft's rows: a batch of rows, or `verify::no_draft_rows` where the verifier reads none.
template <class R>
concept draft_row_batch = row_batch<R> || std::is_same_v<R, verify::no_draft_rows>;

/// A `logit_batch` with grammar masks, logit bias and penalties: `adjusted_batch(rows, {.allowed = {bits, masks,
/// words}})`. The decisions have the same bits as with rows that were changed beforehand (`adjusted_view`), on every
/// machine.
///
/// In `draft_batch` entry e has the mask and the bias of index e. `children_batch::states` describes plain rows, so it
/// must be null here, and `verify_batch` gets the draft's rows with the masks they were drawn with. If every token of a
/// row is forbidden, the request gets the token `none`.
template <class T, class Layout = contiguous>
struct adjusted_batch : logits_of_batch<adjusted_batch<T, Layout>, T, Layout> {
    logit_adjustments adjustments{};

    adjusted_batch() = default;
    /// Rows and adjustments belong to the caller.
    MULTIDRAFT_HD adjusted_batch(logit_batch<T, Layout> const& rows, logit_adjustments const& of_nodes) noexcept
        : logits_of_batch<adjusted_batch, T, Layout>(rows, rows), adjustments(of_nodes) {}

    /// The row of node i with its mask and bias.
    [[nodiscard]] MULTIDRAFT_HD adjusted_view<row_view<T, Layout>> view(std::int64_t i) const noexcept {
        return adjusted_view<row_view<T, Layout>>::unchecked(rows_of_batch<T, Layout>::view(i), adjustments.mask(i),
                                                             adjustments.bias_at(i));
    }
};

namespace detail {

/// Rows of logits with masks and biases.
template <class Rows>
concept has_adjustments = requires(Rows const& rows) {
    { rows.adjustments } -> std::convertible_to<logit_adjustments>;
};

}  // namespace detail

/// The draft's rows of a block drafter with a term of the parent's token ([DSpark]): `low_rank_batch(rows, term,
/// trees.tokens)`. The row of node i is `rows`' row i, with `row_of` that of its depth, plus the term of token
/// `tokens[i]`, the node's own. In `draft_batch` i is the entry, and `tokens[i]` the token of its node.
///
/// Decisions have the same bits as with rows that were written out, on every machine. An entry costs `rank`
/// multiply-adds each time it is read: write rows out where they are read often. `children_batch::states` must be null.
template <class T, class W = float, class Layout = contiguous>
struct low_rank_batch : logits_of_batch<low_rank_batch<T, W, Layout>, T, Layout> {
    low_rank_term<W> term{};
    token_id const* tokens = nullptr;

    low_rank_batch() = default;
    /// Rows, weights and tokens belong to the caller.
    MULTIDRAFT_HD low_rank_batch(logit_batch<T, Layout> const& rows, low_rank_term<W> const& of_token,
                                 token_id const* of_nodes) noexcept
        : logits_of_batch<low_rank_batch, T, Layout>(rows, rows), term(of_token), tokens(of_nodes) {}

    /// The row of node i with the term of its token; without a term where it has none.
    [[nodiscard]] MULTIDRAFT_HD low_rank_view<row_view<T, Layout>, W> view(std::int64_t i) const noexcept {
        token_id const x = tokens[i];
        return (x < 0 ? low_rank_term<W>{} : term)(rows_of_batch<T, Layout>::view(i), x < 0 ? 0 : x);
    }
};

/// The draft's rows where a row has a few candidates (`candidate_view`): `candidate_batch(rows, tokens, k)`.
///
/// Entry j of row r is the logit `rows.data[r * stride + j]` of token `tokens[r * stride + j]`, for j < `candidates`;
/// the tokens of a row rise, and `row_stride` 0 means rows of `candidates` entries, one after another. All other tokens
/// have no mass. `rows.vocabulary` is V.
///
/// Decisions are those of rows written out with minus infinity elsewhere. On the host a row whose tokens do not rise is
/// refused when it is read; on a device they are not checked. Ranked verifiers count the candidates alone.
/// `children_batch::states` must be null.
template <class T>
struct candidate_batch : logits_of_batch<candidate_batch<T>, T, contiguous> {
    token_id const* tokens = nullptr;
    index_t candidates = 0;  ///< of each row, in [1, V]

    candidate_batch() = default;
    /// Logits and tokens belong to the caller.
    MULTIDRAFT_HD candidate_batch(logit_batch<T> const& rows, token_id const* of_entries, index_t count) noexcept
        : logits_of_batch<candidate_batch, T, contiguous>(rows, rows), tokens(of_entries), candidates(count) {}

    /// Entries from one row to the next.
    [[nodiscard]] MULTIDRAFT_HD std::int64_t stride() const noexcept {
        return detail::stride_of_rows(this->row_stride, candidates);
    }
    /// The candidates of node i.
    [[nodiscard]] MULTIDRAFT_HD span<token_id const> tokens_of(std::int64_t i) const noexcept {
        return {tokens + this->row(i) * stride(), static_cast<std::size_t>(candidates)};
    }
    /// The row of node i.
    [[nodiscard]] MULTIDRAFT_HD candidate_view<T> view(std::int64_t i) const {
        return {tokens_of(i), this->data + this->row(i) * stride(), this->vocabulary};
    }
};

namespace detail {

/// Rows with the tokens of a few entries.
template <class Rows>
concept has_candidates = requires(Rows const& rows) {
    rows.candidates;
    rows.tokens;
};

/// Throws `invalid_input`, on a host, for a row of a few entries whose tokens do not rise: before it is read. `name` is
/// the argument's, `whose()` says whose row i is. O(candidates).
template <has_candidates Rows, class Whose>
void refuse_bad_candidates(char const* name, Rows const& rows, std::int64_t i, Whose const& whose) {
    try {
        static_cast<void>(rows.view(i));
    } catch (invalid_input const& e) {
        refuse_member(name, e, whose());
    }
}

/// Rows with a term of the node's token.
template <class Rows>
concept has_token_term = requires(Rows const& rows) {
    rows.term;
    rows.tokens;
};

/// Rows that are changed as they are read, or of which a few entries are in memory: a state of the row in memory would
/// be that of another row.
template <class Rows>
concept changed_when_read = has_adjustments<Rows> || has_token_term<Rows> || has_candidates<Rows>;

}  // namespace detail

/// The draft's rows in the target's vocabulary, for `verify_batch` and `validate_batch`: `widened_batch(rows,
/// {draft_of, vocabulary})`, where `rows` is a `logit_batch`, a `prepared_batch` or a `probability_batch` in the
/// draft's vocabulary.
///
/// Children are drawn from `rows`; `children_batch::token_of` translates them to the target's vocabulary.
template <row_batch Rows>
struct widened_batch {
    Rows rows;
    vocabulary_map map;
    index_t vocabulary = 0;  ///< the target's

    widened_batch() = default;
    /// The arrays of the rows and of the map are not owned.
    MULTIDRAFT_HD constexpr widened_batch(Rows const& of_draft, vocabulary_map of_vocabulary) noexcept
        : rows(of_draft), map(of_vocabulary), vocabulary(of_vocabulary.size) {}

    /// The distribution of node i of request b.
    template <group G>
    [[nodiscard]] MULTIDRAFT_HD auto operator()(G const& g, std::int64_t i, std::int32_t b) const {
        return widened_row(rows(g, i, b), map);
    }
};

namespace detail {

/// Rows that are read through a `vocabulary_map`.
template <class Rows>
concept has_map = requires(Rows const& rows) {
    { rows.map } -> std::convertible_to<vocabulary_map>;
    rows.rows.vocabulary;
};

/// The rows in the draft's vocabulary if `rows` has a map, else `rows`.
template <class Rows>
[[nodiscard]] MULTIDRAFT_HD constexpr auto const& unmapped(Rows const& rows) noexcept {
    if constexpr (has_map<Rows>)
        return rows.rows;
    else
        return rows;
}

}  // namespace detail

}  // namespace MULTIDRAFT_NAMESPACE
