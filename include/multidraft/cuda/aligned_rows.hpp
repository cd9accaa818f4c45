// Rows that begin at multiples of 16 bytes, and how many of their entries a thread reads at a time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/batch/adjusted_batch.hpp"
#include "multidraft/batch/execution_policy.hpp"
#include "multidraft/batch/prepared_batch.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/batch/widened_batch.hpp"
#include "multidraft/cuda/masked_batch.hpp"
#include "multidraft/group/optional_members.hpp"
#include "multidraft/rows/row_view.hpp"

namespace MULTIDRAFT_NAMESPACE::cuda::detail {

/// Rows whose layout declares an alignment, in bytes.
template <class Rows>
concept has_aligned_layout = has_alignment<typename Rows::layout_type>;

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

/// Rows that are read through a map are read entry by entry, so their alignment does not matter.
template <class Rows>
[[nodiscard]] bool rows_are_aligned(widened_batch<Rows> const&) noexcept {
    return true;
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
requires has_alignment<Layout>
[[nodiscard]] adjusted_batch<T> as_entries(adjusted_batch<T, Layout> const& rows) noexcept {
    return {{rows.template in_layout<contiguous>(), rows}, rows.adjustments};
}

}  // namespace MULTIDRAFT_NAMESPACE::cuda::detail
