// Rows of a batch as kernels read them: whole blocks of 16 bytes, masks without a branch, processing compiled once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/batch/execution_policy.hpp"
#include "multidraft/batch/prepared_batch.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/cuda/lane_context.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/group/optional_members.hpp"
#include "multidraft/rows/adjusted_view.hpp"
#include "multidraft/rows/row_view.hpp"
#include "multidraft/rows/softmax.hpp"

namespace MULTIDRAFT_NAMESPACE::cuda::detail {

/// A row whose entries are x_i where the mask allows token i, and minus infinity elsewhere.
///
/// Whether a row has a mask is decided without a branch, since loads are not joined across one. Without a mask the row
/// itself is read instead of the mask's words.
template <class T, class Layout>
class masked_view {
public:
    using real = real_of<T>;

    masked_view() = default;
    /// The row at `data`; the mask has a bit for each of its tokens, or no words.
    MULTIDRAFT_HD masked_view(T const* data, index_t size, Layout layout, token_mask mask) noexcept
        : row_(data, size, layout),
          words_(mask.empty() ? static_cast<void const*>(data) : mask.words()),
          always_(mask.empty() ? ~std::uint32_t{0} : 0U) {}

    [[nodiscard]] MULTIDRAFT_HD index_t size() const noexcept { return row_.size(); }
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD real operator()(index_t i) const noexcept {
        real const x = row_(i);
        return allows(i) ? x : minus_infinity<real>;
    }
    /// Whether the mask allows a token.
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD bool allows(index_t i) const noexcept {
#if defined(__CUDA_ARCH__)
        return ((__ldg(static_cast<std::uint32_t const*>(words_) + (i >> 5)) | always_) >> (i & 31) & 1U) != 0;
#else
        if (always_ != 0) return true;
        std::uint32_t word = 0;  // the words have another type
        __builtin_memcpy(&word, static_cast<unsigned char const*>(words_) + (i >> 5) * std::int64_t{4}, 4);
        return (word >> (i & 31) & 1U) != 0;
#endif
    }

private:
    row_view<T, Layout> row_{};
    void const* words_ = nullptr;
    std::uint32_t always_ = 0;
};

/// The rows of an `adjusted_batch` that has no bias.
template <class T, class Layout>
struct masked_batch : logits_of_batch<masked_batch<T, Layout>, T, Layout> {
    logit_adjustments adjustments{};

    MULTIDRAFT_HD masked_batch(rows_of_batch<T, Layout> const& rows, batch_sampling const& parameters,
                               logit_adjustments const& of_nodes) noexcept
        : logits_of_batch<masked_batch, T, Layout>(rows, parameters), adjustments(of_nodes) {}

    [[nodiscard]] MULTIDRAFT_HD masked_view<T, Layout> view(std::int64_t i) const noexcept {
        return {this->data + this->row(i) * this->stride(), this->vocabulary, this->layout, adjustments.mask(i)};
    }
};

/// Rows that are normalised and truncated when they are read. That takes a group many operations, which nvcc would
/// otherwise inline wherever a verifier reads a row.
template <class Rows>
concept processed_when_read = multidraft::detail::has_sampling<Rows> &&
    requires(Rows const& rows, host_group const& g) {
    rows.with_sums(g, std::int64_t{}, std::int32_t{});
};

/// The same rows, processed by one function.
template <class Rows>
struct outlined_rows : Rows {
    MULTIDRAFT_HD explicit outlined_rows(Rows const& rows) : Rows(rows) {}

    template <group G>
    [[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_OUTLINE auto with_sums(G const& g, std::int64_t i, std::int32_t b) const {
        return Rows::with_sums(g, i, b);
    }
    template <group G>
    [[nodiscard]] MULTIDRAFT_HD auto operator()(G const& g, std::int64_t i, std::int32_t b) const {
        return with_sums(g, i, b).row;
    }
};

/// Rows as a kernel reads them.
template <class Rows>
[[nodiscard]] MULTIDRAFT_HD auto outlined(Rows const& rows) {
    if constexpr (processed_when_read<Rows>)
        return outlined_rows<Rows>(rows);
    else
        return rows;
}

/// Rows whose layout declares an alignment, in bytes.
template <class Rows>
concept has_aligned_layout = requires {
    requires Rows::layout_type::alignment >
    0;
};

/// Entries of a row that a thread reads at a time.
template <class Rows>
inline constexpr int read_at_once = [] {
    if constexpr (has_aligned_layout<Rows>)
        return Rows::layout_type::alignment / static_cast<int>(sizeof(typename Rows::element));
    else
        return 1;
}();

/// Rows with adjacent entries and no declared alignment.
template <class Rows>
concept contiguous_rows = std::is_same_v<typename Rows::layout_type, contiguous>;

/// Whether rows of this type can be aligned to 16 bytes; true if there are no rows. Kernels for aligned rows are
/// compiled for such types only.
template <class Rows>
inline constexpr bool may_be_aligned = contiguous_rows<Rows> || !row_batch<Rows> || (read_at_once<Rows> > 1);

/// Whether rows of this type are aligned without a look at them. No kernels that read entry by entry are compiled for
/// such types.
template <class Rows>
inline constexpr bool always_aligned = !row_batch<Rows> || (read_at_once<Rows> > 1);
template <class T, class Layout>
inline constexpr bool always_aligned<adjusted_batch<T, Layout>> = false;

/// A call that gives no rows reads them entry by entry.
template <>
inline constexpr bool may_be_aligned<rows_of_size> = false;
template <>
inline constexpr bool always_aligned<rows_of_size> = false;

/// Whether every row begins at a multiple of 16 bytes, or there are no rows.
template <class Rows>
[[nodiscard]] bool rows_are_aligned(Rows const& rows) noexcept {
    if constexpr (contiguous_rows<Rows>)
        return reinterpret_cast<std::uintptr_t>(rows.data) % 16 == 0 &&
               rows.stride() * static_cast<std::int64_t>(sizeof(typename Rows::element)) % 16 == 0;
    else
        return row_batch<Rows> ? read_at_once<Rows> > 1 : true;
}

/// Rows with a bias are read entry by entry, since a token's bias is searched for.
template <class T, class Layout>
[[nodiscard]] bool rows_are_aligned(adjusted_batch<T, Layout> const& rows) noexcept {
    return rows.adjustments.bias.empty() && rows_are_aligned(logit_batch<T, Layout>(rows, rows));
}

/// The same rows with their alignment declared in the layout.
template <class Rows>
[[nodiscard]] Rows as_aligned(Rows const& rows) noexcept {
    return rows;
}
template <class T>
[[nodiscard]] logit_batch<T, aligned<16>> as_aligned(logit_batch<T> const& rows) noexcept {
    return {rows.template in_layout<aligned<16>>(), rows};
}
template <class T>
[[nodiscard]] masked_batch<T, aligned<16>> as_aligned(adjusted_batch<T> const& rows) noexcept {
    return {rows.template in_layout<aligned<16>>(), rows, rows.adjustments};
}
template <class T, class Layout>
[[nodiscard]] masked_batch<T, Layout> as_aligned(adjusted_batch<T, Layout> const& rows) noexcept {
    return {rows, rows, rows.adjustments};
}
template <class T>
[[nodiscard]] prepared_batch<T, aligned<16>> as_aligned(prepared_batch<T> const& rows) noexcept {
    return {rows.template in_layout<aligned<16>>(), rows.states, rows.sums, rows.runs};
}
template <class T>
[[nodiscard]] probability_batch<T, aligned<16>> as_aligned(probability_batch<T> const& rows) noexcept {
    return probability_batch<T, aligned<16>>(rows.template in_layout<aligned<16>>());
}

/// The same rows as they are read entry by entry.
template <class Rows>
[[nodiscard]] Rows as_entries(Rows const& rows) noexcept {
    return rows;
}
template <class T, class Layout>
requires(Layout::alignment > 0)
    [[nodiscard]] adjusted_batch<T> as_entries(adjusted_batch<T, Layout> const& rows) noexcept {
    return {{rows.template in_layout<contiguous>(), rows}, rows.adjustments};
}

}  // namespace MULTIDRAFT_NAMESPACE::cuda::detail
