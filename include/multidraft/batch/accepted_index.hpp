// Verdicts in SGLang's format: the indices of the accepted nodes in the batch, and the token that follows each.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "multidraft/base/config.hpp"
#include "multidraft/batch/accepted_tokens.hpp"
#include "multidraft/batch/detail/refusals.hpp"
#include "multidraft/batch/execution_policy.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/batch/tree_batch.hpp"
#include "multidraft/batch/verdict_batch.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// The arrays for the verdicts of a batch in SGLang's format: `accept_index`, `predicts` and `accept_token_num`.
///
/// Every node has an index in the engine's arrays. Without `order` node v of request b has the index i = `offsets[b] +
/// v`. With `order` (see `build_trees`) i = `offsets[b] + order[offsets[b] + v]`, the node's index before the tree was
/// brought into level order. With `index` (SGLang's `retrive_index`) the index is `index[i]`.
///
/// - `accept_index[b * stride ..]`: the index of the root, those of the accepted nodes, then -1.
/// - `predicts[i]`, for each of these indices i: the token that follows the node in the text. Other entries are not
///   written.
/// - `accept_token_num[b]`: the number of accepted nodes, without the root.
template <class Id = std::int32_t>
struct accepted_index {
    Id* predicts = nullptr;
    Id* accept_index = nullptr;
    std::int64_t stride = 0;  ///< entries per request: the depth of the deepest tree, plus 1
    Id* accept_token_num = nullptr;
    node_id const* order = nullptr;       ///< may be null
    std::int64_t const* index = nullptr;  ///< may be null

    /// The index of node v of request b.
    [[nodiscard]] MULTIDRAFT_HD std::int64_t operator()(tree_batch const& trees, std::int32_t b,
                                                        node_id v) const noexcept {
        std::int64_t const first = trees.offsets[b];
        std::int64_t const place = first + (order == nullptr ? v : order[first + v]);
        return index == nullptr ? place : index[place];
    }
};

namespace detail {

/// Writes entry `k % stride` of request `k / stride`; entry 0 is the root's.
template <class Id>
struct write_accepted_index {
    tree_batch trees;
    verdict_batch verdicts;
    accepted_index<Id> out;

    MULTIDRAFT_HD void operator()(std::int64_t k) const noexcept {
        auto const b = static_cast<std::int32_t>(k / out.stride);
        std::int64_t const place = k % out.stride;
        token_id const next = verdicts.next[b];
        std::int64_t const accepted = next == none ? 0 : verdicts.accepted[b];
        if (place == 0) out.accept_token_num[b] = static_cast<Id>(accepted < out.stride ? accepted : out.stride - 1);
        if (place > accepted) {
            out.accept_index[k] = Id{-1};
            return;
        }
        auto const path = verdicts.path_of(trees, b);
        std::int64_t const i = out(trees, b, place == 0 ? 0 : path[place - 1]);
        out.accept_index[k] = static_cast<Id>(i);
        out.predicts[i] = static_cast<Id>(place < accepted ? trees.tokens[trees.offsets[b] + path[place]] : next);
    }
};

}  // namespace detail

/// Writes the verdicts of a batch by index, one entry per thread, with the policy given to `verify_batch`. A request
/// that could not be decided gets only its root, with the token -1.
///
/// On a host throws `invalid_input` like `write_accepted_tokens`. In a launch accepted nodes beyond the stride are left
/// out, and the last entry has the token that follows its node. O(requests stride).
template <execution_policy P, class Id>
auto write_accepted_index(P const& policy, tree_batch const& trees, verdict_batch const& verdicts,
                          accepted_index<Id> const& out) {
    return detail::checked(
        policy,
        [&] {
            if (trees.requests == 0) return;
            detail::refuse_null(out.predicts, "out.predicts");
            detail::refuse_null(out.accept_index, "out.accept_index");
            detail::refuse_null(out.accept_token_num, "out.accept_token_num");
            detail::refuse_bad_outputs(policy, trees, verdicts, out.stride);
        },
        [&] {
            return for_each(policy, trees.requests * out.stride,
                            detail::write_accepted_index<Id>{trees, verdicts, out});
        });
}

}  // namespace MULTIDRAFT_NAMESPACE
