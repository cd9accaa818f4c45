// Rows of a batch in place: logits and probabilities.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/batch/batch_sampling.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/rows/probabilities.hpp"
#include "multidraft/rows/row_view.hpp"
#include "multidraft/rows/sampling_params.hpp"
#include "multidraft/rows/softmax.hpp"

namespace MULTIDRAFT_NAMESPACE {

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
    std::int64_t const* row_of = nullptr;   ///< may be null
    [[no_unique_address]] Layout layout{};  ///< how the entries of a row are laid out

    rows_of_batch() = default;
    /// The fields in order.
    MULTIDRAFT_HD constexpr rows_of_batch(T const* first, std::int64_t stride_of_rows, index_t size,
                                          std::int64_t const* row_of_node = nullptr, Layout of_rows = {}) noexcept
        : data(first), row_stride(stride_of_rows), vocabulary(size), row_of(row_of_node), layout(of_rows) {}

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
        : rows_of_batch<T, Layout>(first, stride_of_rows, size, row_of_node, of_rows),
          batch_sampling{of_requests, of_all, {}, nullptr} {}
    /// Rows with the parameters of their requests.
    MULTIDRAFT_HD constexpr logits_of_batch(rows_of_batch<T, Layout> const& rows,
                                            batch_sampling const& parameters) noexcept
        : rows_of_batch<T, Layout>(rows), batch_sampling(parameters) {}

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
    using rows_of_batch<T, Layout>::rows_of_batch;
    probability_batch() = default;
    /// The rows as probabilities.
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

}  // namespace MULTIDRAFT_NAMESPACE
