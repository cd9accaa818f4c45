// Rows of a batch in place: logits, logits whose normalisers are known, probabilities.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/rows/probabilities.hpp"
#include "multidraft/rows/row_view.hpp"
#include "multidraft/rows/sampling_arrays.hpp"
#include "multidraft/rows/sampling_params.hpp"
#include "multidraft/rows/softmax.hpp"
#include "multidraft/rows/truncated_view.hpp"
#include "multidraft/rows/truncation.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// Rows of a batch as distributions: `rows(g, i, b)` is the distribution of node i of the batch, numbered across all
/// requests, which belongs to request b; `rows.vocabulary` is the number of entries of a row. The three below model it,
/// and so may an engine's own type. Rows that are normalised when read may have `rows.with_sums(g, i, b)`, the row with
/// the chunk sums of its weights.
template <class R>
concept row_batch = requires(R const& rows, host_group const& g, std::int64_t i, std::int32_t b) {
    { rows.vocabulary } -> std::convertible_to<index_t>;
    { rows(g, i, b) } -> distribution;
};

/// Rows of logits of type T: float, double, `float16` or `bfloat16` (CUDA: not double).
///
/// Row r begins at `data + r * stride()` entries. Node i of the batch has row `row_of[i]`, or row i where `row_of` is
/// null. So a draft needs rows for nodes with children only, and rows of a pool need not be copied. In `draft_batch` i
/// is the entry of the level. The normaliser of a row is computed when the row is read.
///
/// The sampling parameters of request b are entry b of `sampling` or, where that is null, of `arrays`. With `slot_of`
/// it is entry `slot_of[b]`, for engines that keep parameters by the request's slot in the batch. Target and draft have
/// their own parameters.
template <class T, class Layout = contiguous>
struct logit_batch {
    using element = T;
    using layout_type = Layout;

    T const* data = nullptr;
    std::int64_t row_stride = 0;  ///< 0: `vocabulary`, rows one after another; else at least that
    index_t vocabulary = 0;
    std::int64_t const* row_of = nullptr;       ///< may be null
    sampling_params const* sampling = nullptr;  ///< one per request; may be null: `default_sampling` for all
    sampling_params default_sampling{};         ///< where `sampling` is null
    [[no_unique_address]] Layout layout{};      ///< how the entries of a row are laid out
    sampling_arrays arrays{};                   ///< where `sampling` is null; its null arrays mean the default
    std::int32_t const* slot_of = nullptr;      ///< may be null

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
    /// The sampling parameters of request b.
    [[nodiscard]] MULTIDRAFT_HD sampling_params sampling_of(std::int32_t b) const noexcept {
        std::int64_t const slot = slot_of == nullptr ? b : slot_of[b];
        return sampling == nullptr ? arrays(slot, default_sampling) : sampling[slot];
    }
    template <group G>
    [[nodiscard]] MULTIDRAFT_HD auto with_sums(G const& g, std::int64_t i, std::int32_t b) const {
        return process_logits(g, view(i), sampling_of(b));
    }
    /// The distribution of node i, of request b.
    template <group G>
    [[nodiscard]] MULTIDRAFT_HD auto operator()(G const& g, std::int64_t i, std::int32_t b) const {
        return with_sums(g, i, b).row;
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

/// The numbers that turn a row of logits into a distribution, in single precision: `prepare_batch` and `draft_batch`
/// write them and `prepared_batch` reads them, so that a verifier need not read the row again for its normaliser.
/// Token i has the probability exp(scale (x_i - largest)) / mass if truncation keeps it, else 0. Trivially copyable.
/// Where all entries equal to `cut_value` are kept, different machines may write different `cut_last`.
struct row_state {
    float largest = 0;                        ///< the largest logit
    float scale = 1;                          ///< the inverse of the temperature
    float mass = 1;                           ///< the sum of exp(scale (x_i - largest)) over the kept tokens, or NaN
    float cut_value = minus_infinity<float>;  ///< logits above it are kept
    index_t cut_last = 0;                     ///< logits equal to `cut_value` are kept up to this index
};

/// The state of a processed row.
template <class View>
[[nodiscard]] MULTIDRAFT_HD row_state state_of(softmax_row<View> const& row) noexcept {
    static_assert(std::is_same_v<typename View::real, float>,
                  "multidraft: row states are those of rows that are computed in single precision");
    return {row.largest(), row.scale(), row.mass(), row.kept().value, row.kept().last};
}

/// Rows of logits with what `prepare_batch` or `draft_batch` wrote about them: `states[i]` is that of node i of the
/// batch. T: float, `float16` or `bfloat16`. Row and layout as in `logit_batch`.
///
/// Verdicts have the same bits as with the `logit_batch` that was prepared. A verifier reads single entries of a row,
/// and all of them only for a residual. The token after the last accepted node is drawn from the chunk sums of the
/// target's row: `kept_sums(vocabulary)` of `sums` for each node. With `runs`, `chunks_of(vocabulary)` words for each
/// node, hosts read of a truncated row only the runs of 64 entries in which it keeps a token (`truncated_view`).
template <class T, class Layout = contiguous>
struct prepared_batch {
    using element = T;
    using layout_type = Layout;

    T const* data = nullptr;
    std::int64_t row_stride = 0;  ///< 0: `vocabulary`, rows one after another; else at least that
    index_t vocabulary = 0;
    row_state const* states = nullptr;
    std::int64_t const* row_of = nullptr;  ///< may be null
    [[no_unique_address]] Layout layout{};
    float const* sums = nullptr;          ///< of the target's rows; may be null for the draft's
    std::uint64_t const* runs = nullptr;  ///< may be null

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
    /// The distribution of node i.
    template <group G>
    [[nodiscard]] MULTIDRAFT_HD softmax_row<truncated_view<row_view<T, Layout>>> operator()(G const&, std::int64_t i,
                                                                                            std::int32_t) const {
        row_state const& s = states[i];
        truncation_threshold<float> kept;
        kept.value = s.cut_value;
        kept.last = s.cut_last;
        truncated_view<row_view<T, Layout>> const x(view(i),
                                                    runs == nullptr ? nullptr : runs + i * chunks_of(vocabulary));
        softmax_row<truncated_view<row_view<T, Layout>>> row(x, s.largest, s.scale, kept);
        row.set_mass(s.mass);
        return row;
    }
    /// The same with the chunk sums of its weights. Reads `sums`.
    template <group G>
    [[nodiscard]] MULTIDRAFT_HD processed_row<truncated_view<row_view<T, Layout>>, chunk_sums_of<G, float>> with_sums(
        G const& g, std::int64_t i, std::int32_t b) const {
        return {(*this)(g, i, b), g.sums_from(vocabulary, sums + i * kept_sums(vocabulary), states[i].mass)};
    }
};

/// Rows of probabilities. Type, row and layout as in `logit_batch`.
template <class T, class Layout = contiguous>
struct probability_batch {
    using element = T;
    using layout_type = Layout;

    T const* data = nullptr;
    std::int64_t row_stride = 0;  ///< 0: `vocabulary`, rows one after another; else at least that
    index_t vocabulary = 0;
    std::int64_t const* row_of = nullptr;  ///< may be null
    [[no_unique_address]] Layout layout{};

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
    /// The distribution of node i.
    template <group G>
    [[nodiscard]] MULTIDRAFT_HD probabilities<T, Layout> operator()(G const&, std::int64_t i, std::int32_t) const {
        return probabilities<T, Layout>(view(i));
    }
};

}  // namespace MULTIDRAFT_NAMESPACE
