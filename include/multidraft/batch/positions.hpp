// The positions of the nodes of a batch of trees in their texts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>

#include "multidraft/base/config.hpp"
#include "multidraft/batch/detail/refusals.hpp"
#include "multidraft/batch/execution_policy.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/batch/tree_batch.hpp"
#include "multidraft/tree/topology.hpp"

namespace MULTIDRAFT_NAMESPACE {

namespace detail {

/// Writes the position of one node.
template <class Id>
struct write_position {
    tree_batch trees;
    std::int32_t const* contexts;
    Id* out;

    MULTIDRAFT_HD void operator()(std::int64_t k) const noexcept {
        std::int32_t const b = trees.request_of(k);
        out[k] = static_cast<Id>(contexts[b] + trees(b).depth(static_cast<node_id>(k - trees.offsets[b])));
    }
};

}  // namespace detail

/// Writes the positions of all nodes, one per thread: `contexts[b]`, the number of tokens before the root, plus the
/// depth. `Id`: `std::int64_t` (SGLang) or `std::int32_t`. Nodes may be in any order with parents before children;
/// tokens are not read. Throws `invalid_input` for missing arrays, or returns an error for them. O(depth) per node.
template <execution_policy P, std::integral Id>
auto write_positions(P const& policy, tree_batch const& trees, std::int32_t const* contexts, Id* out) {
    return detail::checked(
        policy,
        [&] {
            detail::refuse_bad_trees(trees, false);
            if (trees.requests == 0) return;
            detail::refuse_null(contexts, "contexts");
            detail::refuse_null(out, "out");
        },
        [&] {
            return for_each(policy, trees.nodes, detail::write_position<Id>{trees, contexts, out});
        });
}

}  // namespace MULTIDRAFT_NAMESPACE
