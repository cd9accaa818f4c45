// The output of bringing trees into level order: the trees, and properties of their nodes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "multidraft/base/config.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// The arrays for the trees in level order. Each request keeps its number of nodes, so `offsets` stay valid.
struct built_trees {
    node_id* parents = nullptr;
    token_id* tokens = nullptr;      ///< may be null for `cuda::build_trees`
    node_id* order = nullptr;        ///< the node's number in the input; may be null
    std::int32_t* depths = nullptr;  ///< levels below the root; may be null
    std::int32_t* faults = nullptr;  ///< per request, the number of nodes not connected to the root; may be null
    index_t* certain = nullptr;      ///< certain children of each node, if the input has them; may be null
    /// `offsets[b] + order`: each node's row in the order of the input, as `row_of` for rows in that order; may be
    /// null.
    std::int64_t* rows = nullptr;
};

}  // namespace MULTIDRAFT_NAMESPACE
