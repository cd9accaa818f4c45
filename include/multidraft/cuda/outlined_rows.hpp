// Rows of a batch whose processing is compiled once in a kernel, not at every place that reads a row.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "multidraft/base/config.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/cuda/lane_context.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/group/host_group.hpp"

namespace MULTIDRAFT_NAMESPACE::cuda::detail {

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

}  // namespace MULTIDRAFT_NAMESPACE::cuda::detail
