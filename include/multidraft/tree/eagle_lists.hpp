// Trees in the format of EAGLE's growth: the parents of the beams, and the selected candidates.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// The two lists of a tree that was grown with k beams per level and reduced to its best candidates ([EAGLE-2]): the
/// arguments of SGLang's `build_tree_kernel_efficient`.
///
/// Candidates are numbered over all levels. The children of the root are candidates 0 to k - 1; from the second level
/// on each beam of the previous level has k children, in the order of the beams. So candidate c is a child of beam c /
/// k, where beam 0 is the root and beam j is candidate `parents[j]`.
template <std::integral Id>
struct eagle_lists {
    span<Id const> parents;   ///< `parent_list`: k * (levels - 1) + 1 entries; the first is not read
    span<Id const> selected;  ///< `selected_index`: entry v - 1 is the candidate of node v
    std::int32_t beams = 1;   ///< k, `topk`

    /// The parent of node v; -1 for the root and for a node whose parent was not selected. O(N).
    [[nodiscard]] MULTIDRAFT_HD node_id operator()(node_id v) const noexcept {
        if (v < 1) return none;
        auto const candidate = static_cast<std::int64_t>(selected[v - 1]);
        if (candidate < 0) return none;
        std::int64_t const beam = candidate / beams;
        if (beam == 0) return 0;
        if (beam >= static_cast<std::int64_t>(parents.size())) return none;
        Id const above = parents[beam];
        for (std::size_t k = 0; k < selected.size(); ++k)
            if (selected[k] == above) return static_cast<node_id>(k) + 1 == v ? none : static_cast<node_id>(k) + 1;
        return none;
    }
};

}  // namespace MULTIDRAFT_NAMESPACE
