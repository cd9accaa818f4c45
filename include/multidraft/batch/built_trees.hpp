// Where trees go that are brought into level order, and what else is said of their nodes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "multidraft/core/config.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// Where the trees in level order go: as many nodes a request as came in, so `offsets` stay.
struct built_trees {
    node_id* parents = nullptr;
    token_id* tokens = nullptr;
    node_id* order = nullptr;        ///< which node of the input each one was; may be null
    std::int32_t* depths = nullptr;  ///< levels below the root; may be null
    std::int32_t* faults = nullptr;  ///< for each request: 0, or how many nodes hang on no root; may be null
    index_t* certain = nullptr;      ///< certain children of each node, where the input says; may be null
    /// `offsets[b] + order`: of each node the row that it has in the order of the input, for `row_of` of rows that were
    /// laid out before; may be null.
    std::int64_t* rows = nullptr;
};

}  // namespace MULTIDRAFT_NAMESPACE
