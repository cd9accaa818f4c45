// The rows of a tree in another order than its nodes; some nodes may have no row, and some may share one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// Rows by an index for each node: node v has row `row_of_node[v]` of `rows`, or `none` if it has no row, as a leaf has
/// no row of the draft. Wraps any rows (`logit_rows`, `prepared_rows`, ..); the index array belongs to the caller.
///
/// Reading the row of a node without one is an `invalid_input` on the host.
template <class Rows>
class indexed_rows {
public:
    /// Throws `invalid_input` on the host for an index outside the rows. O(nodes).
    MULTIDRAFT_HD indexed_rows(Rows rows, span<index_t const> row_of_node)
        : rows_(std::move(rows)), row_of_node_(row_of_node) {
#if !MULTIDRAFT_ON_DEVICE
        for (std::size_t v = 0; v < row_of_node.size(); ++v)
            if (row_of_node[v] < none || row_of_node[v] >= rows_.rows())
                refuse("row_of_node", static_cast<std::int64_t>(v), row_of_node[v],
                       "there are " + std::to_string(rows_.rows()) + " rows; -1: none");
#endif
    }

    [[nodiscard]] MULTIDRAFT_HD constexpr index_t rows() const noexcept {
        return static_cast<index_t>(row_of_node_.size());
    }
    [[nodiscard]] MULTIDRAFT_HD constexpr index_t size() const noexcept { return rows_.size(); }
    template <group G>
    [[nodiscard]] MULTIDRAFT_HD auto operator()(G const& g, node_id node) const {
        return rows_(g, row_of<G>(node));
    }
    /// The row with the chunk sums of its weights, if the wrapped rows have them.
    template <group G>
    requires requires(Rows const& rows, G const& g) { rows.with_sums(g, node_id{}); }
    [[nodiscard]] MULTIDRAFT_HD auto with_sums(G const& g, node_id node) const {
        return rows_.with_sums(g, row_of<G>(node));
    }

private:
    template <group G>
    [[nodiscard]] MULTIDRAFT_HD index_t row_of(node_id node) const {
        index_t const row = row_of_node_[node];
#if !MULTIDRAFT_ON_DEVICE
        if constexpr (G::throws)
            if (row == none) refuse("row_of_node", node, row, "the row of this node is read, and it has none");
#endif
        return row;
    }

    Rows rows_;
    span<index_t const> row_of_node_;
};

}  // namespace MULTIDRAFT_NAMESPACE
