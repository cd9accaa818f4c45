// The rows of one tree of a batch, as a verifier reads them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "multidraft/base/config.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/batch/tree_batch.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/tree/topology.hpp"

namespace MULTIDRAFT_NAMESPACE::detail {

/// The distributions of the tree of request b. It refers to the call's arguments and locates a row at each call, so
/// that in a launch it occupies no registers.
template <class Rows>
struct request_rows {
    Rows const& batch;
    tree_batch const& trees;
    std::int32_t b;
    int prefetched = 0;  ///< the most rows that `prefetch` fetches

    [[nodiscard]] MULTIDRAFT_HD index_t rows() const noexcept { return trees.size(b); }
    [[nodiscard]] MULTIDRAFT_HD index_t size() const noexcept { return batch.vocabulary; }
    template <group G>
    [[nodiscard]] MULTIDRAFT_HD auto operator()(G const& g, node_id node) const {
        return batch(g, trees.offsets[b] + node, b);
    }
    /// The row with the chunk sums of its weights (see `verify::emit_at`).
    template <group G>
    requires requires(Rows const& rows, G const& g) { rows.with_sums(g, std::int64_t{}, std::int32_t{}); }
    [[nodiscard]] MULTIDRAFT_HD auto with_sums(G const& g, node_id node) const {
        return batch.with_sums(g, trees.offsets[b] + node, b);
    }
    /// Prefetches the rows of the first of some nodes, of which one may be read next, on groups that can.
    template <group G>
    requires requires(Rows const& rows, G const& g) {
        rows.with_sums(g, std::int64_t{}, std::int32_t{});
        g.prefetch(rows.data + rows.row(std::int64_t{}) * rows.stride(), std::int64_t{});
    }
    MULTIDRAFT_HD void prefetch(G const& g, node_range nodes) const {
        MULTIDRAFT_ROLL
        for (node_id k = 0; k < nodes.count && k < prefetched; ++k)
            g.prefetch(batch.data + batch.row(trees.offsets[b] + nodes.first + k) * batch.stride(),
                       std::int64_t{batch.vocabulary} * static_cast<std::int64_t>(sizeof(typename Rows::element)));
    }
};

}  // namespace MULTIDRAFT_NAMESPACE::detail
