// The nodes of a batch whose children are drawn in one call, and the output of that call.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "multidraft/base/config.hpp"
#include "multidraft/batch/prepared_batch.hpp"
#include "multidraft/batch/row_batch.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// Nodes of one or more requests, such as a level of every tree: entry e is node `nodes[e]` of request `requests[e]`.
struct level_batch {
    std::int32_t entries = 0;
    std::int32_t const* requests = nullptr;
    node_id const* nodes = nullptr;
    std::int32_t const* wanted = nullptr;  ///< children of each; may be null: `children_batch::stride`
    /// Levels below the root, of each node: read for samplers whose noise depends on the position in the text
    /// (`draft::shared_randomness`); else may be null.
    std::int32_t const* depths = nullptr;
    /// The number of the first entry in errors, for a part of a larger level.
    std::int32_t first_entry = 0;
};

/// The children drawn for the entries of a level.
///
/// Those of entry e begin at `tokens + first[e]`, `wanted[e]` of them; with `first` null at `tokens + e * stride`, and
/// then there are `stride` elements for each. Children that could not be drawn are `support_ended`, elements beyond
/// `wanted[e]` are `padding`: both mark slots without a child in a `tree_batch` (tree/absent_tokens.hpp).
struct children_batch {
    token_id* tokens = nullptr;
    std::int64_t const* first = nullptr;  ///< may be null: see `stride`
    std::int64_t stride = 0;              ///< read where `first` or `wanted` is null
    index_t* counts = nullptr;            ///< how many were drawn for each entry; may be null
    /// How many of an entry's children are certain, for `tree_batch::certain`; may be null for laws without.
    index_t* certain = nullptr;
    row_state* states = nullptr;               ///< the entry's row, for `prepared_batch`; may be null
    std::int64_t const* node_index = nullptr;  ///< an entry's index in `certain` and `states`; may be null: e
    /// q of each child, at the child's index in `tokens`: the probability of its token in the row, whatever was drawn
    /// before it; 0 where there is no child. Growth by likelihood multiplies these ([EAGLE-2]). May be null.
    float* probabilities = nullptr;
    /// For drafts with a smaller vocabulary (see `widened_batch`): the target's token for each token of the row; may be
    /// null: the same token.
    token_id const* token_of = nullptr;
};

}  // namespace MULTIDRAFT_NAMESPACE
