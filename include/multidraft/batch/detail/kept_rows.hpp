// Rows of a request that are normalised once, in the workspace of a batched call.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/batch/detail/request_rows.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/rows/remembered_rows.hpp"

namespace MULTIDRAFT_NAMESPACE::detail {

/// Bytes reserved for a row.
inline constexpr std::size_t kept_row_bytes = 160;

/// The rows of one request, remembered.
template <class Rows, class G>
using kept_rows = remembered_rows<request_rows<Rows>, G>;

/// Whether there is something to remember and it fits.
template <class Rows, class G>
concept can_be_kept = !has_states<Rows> && requires(Rows const& rows, G const& g) {
    rows.with_sums(g, std::int64_t{}, 0);
}
&&std::is_trivially_copyable_v<typename kept_rows<Rows, G>::row> &&
    sizeof(remembered_row<typename kept_rows<Rows, G>::row>) <= kept_row_bytes &&
    alignof(remembered_row<typename kept_rows<Rows, G>::row>) <= 16;

/// The rows of a request, remembered in `memory`: `kept_row_bytes` for each node of the tree, aligned to 16 bytes.
template <class G, class Rows>
requires can_be_kept<Rows, G>
[[nodiscard]] kept_rows<Rows, G> kept_in(span<std::byte> memory, request_rows<Rows> const& rows) {
    using entry = remembered_row<typename kept_rows<Rows, G>::row>;
    auto* const entries = reinterpret_cast<entry*>(memory.data());
    auto const n = static_cast<std::size_t>(rows.rows());
    for (std::size_t v = 0; v < n; ++v) ::new (static_cast<void*>(entries + v)) entry;
    return {rows, span<entry>(entries, n)};
}

}  // namespace MULTIDRAFT_NAMESPACE::detail
