// The estimated chance of each node of a shape, and the accepted tokens expected of it, by the rows of a step.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/draft/child_shares.hpp"
#include "multidraft/draft/shape_of_rows.hpp"
#include "multidraft/tree/topology.hpp"

namespace MULTIDRAFT_NAMESPACE::draft {

/// Writes for each node of a shape the estimated probability that it is accepted where its parent was, 1 for the root,
/// by the rows of its depths (`chances_of`). Returns the expected number of accepted nodes. O(nodes). Throws
/// `invalid_input` for a shape with more levels than there are rows.
template <class Sampler>
double shape_chances(Sampler const& sampler, std::span<depth_outlook const> rows, topology const& shape,
                     std::vector<double>& chances) {
    if (static_cast<std::size_t>(shape.max_depth()) > rows.size())
        refuse("shape.max_depth", shape.max_depth(), "a shape has no more levels than there are rows");
    auto const nodes = static_cast<std::size_t>(shape.size());
    chances.assign(nodes, 1.0);
    std::vector<double> reach(nodes, 1.0);
    double sum = 0;
    for (node_id v = 0; v < shape.size(); ++v) {
        node_range const children = shape.children(v);
        if (children.count == 0) continue;
        depth_outlook const& row = rows[static_cast<std::size_t>(shape.depth(v))];
        child_chances const of = chances_of(sampler, row, children.count);
        for (index_t k = 0; k < children.count; ++k) {
            auto const child = static_cast<std::size_t>(children.first + k);
            chances[child] = of.of_child(row.likeliest, k);
            reach[child] = reach[static_cast<std::size_t>(v)] * chances[child];
            sum += reach[child];
        }
    }
    return sum;
}

}  // namespace MULTIDRAFT_NAMESPACE::draft
