// Verification at temperature 0: the most likely token after each node, and the walk along these.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/batch/arguments.hpp"
#include "multidraft/batch/detail/check_batch.hpp"
#include "multidraft/batch/detail/refusals.hpp"
#include "multidraft/batch/execution_policy.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/batch/prepare.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/batch/validation.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/rows/softmax.hpp"
#include "multidraft/tree/absent_tokens.hpp"
#include "multidraft/tree/topology.hpp"

namespace MULTIDRAFT_NAMESPACE {

namespace detail {

/// Writes the prediction after node i.
template <class Rows, class Id>
struct predict_row {
    tree_batch trees;
    Rows rows;
    Id* predicted;

    template <group G>
    MULTIDRAFT_HD void operator()(G const& g, std::int64_t i) const {
        index_t const token =
            row_is_read(trees, batch_argument::target, rows, i) ? most_likely_token(g, rows.view(i)) : none;
        if (g.leader()) predicted[i] = static_cast<Id>(token);
    }
};

}  // namespace detail

/// Writes for each node of a batch the token with the largest logit in the target's row, ties to the lower token: one
/// pass over each row, all rows in parallel. `verify_predictions(policy, trees, prediction_batch<Id>{predicted}, out)`
/// then verifies the batch at temperature 0 and reads no row; its texts are those of `verify_batch` with any
/// lossless verifier at temperature 0. Of equal children the first is accepted.
///
/// - `policy`: as for `verify_batch`; include `cuda/on.cuh` or `kokkos/on.hpp` for those.
/// - `target`: `target_rows` of a `logit_batch`, or of an `adjusted_batch` with masks and biases. Sampling parameters
///   are not used.
/// - `predicted`: an entry for each node, `std::int64_t` or `std::int32_t`, in memory that the policy can access (CUDA:
///   of the device); `none` for nodes that were not drawn and for rows that are not distributions.
/// - `scratch`: `row_workspace_size(policy, trees.nodes)` bytes, or none.
///
/// O(nodes x vocabulary). Errors as for `prepare_batch`. Nothing is allocated.
template <execution_policy P, logit_row_batch Rows, class Id>
auto predict_batch(P const& policy, tree_batch const& trees, target_rows<Rows> const& target, Id* predicted,
                   workspace const& scratch = {}) {
    auto const make = [&](auto const& same) {
        return detail::predict_row<std::remove_cvref_t<decltype(same)>, Id>{trees, same, predicted};
    };
    return detail::checked_row_call(policy, trees, batch_argument::target, target.rows, make, scratch,
                                    [&] { detail::refuse_null(predicted, "predicted"); });
}

/// The target's prediction after each node of a batch: the token with the largest logit of the node's row. Node i of
/// the batch has entry `row_of[i]`, or entry i where `row_of` is null. `Id`: `std::int64_t` (SGLang's `target_predict`)
/// or `std::int32_t`.
template <class Id = std::int64_t>
struct prediction_batch {
    Id const* tokens = nullptr;
    std::int64_t const* row_of = nullptr;  ///< may be null

    /// The predicted token after node i; negative where there is none.
    [[nodiscard]] MULTIDRAFT_HD token_id operator()(std::int64_t i) const noexcept {
        return narrow_token(tokens[row_of == nullptr ? i : row_of[i]]);
    }
};

namespace detail {

/// Verifies one request.
template <class Id>
struct follow_predictions {
    tree_batch trees;
    prediction_batch<Id> predicted;
    verdict_batch out;

    MULTIDRAFT_HD void operator()(std::int64_t request) const noexcept {
        auto const b = static_cast<std::int32_t>(request);
        tree_view const tree = trees(b);
        auto const path = out.path_of(trees, b);
        std::int32_t accepted = 0;
        token_id next = none;
        if (tree.is_tree()) {
            node_id node = 0;
            for (;;) {
                next = predicted(trees.offsets[b] + node);
                node_id const child = next < 0 ? none : find(tree, node, next);
                if (child == none) break;
                if (static_cast<std::size_t>(accepted) >= path.size()) {
                    next = none;  // the path has no space left
                    break;
                }
                path[accepted++] = child;
                node = child;
            }
        }
        out.accepted[b] = next < 0 ? 0 : accepted;
        out.next[b] = next < 0 ? none : next;
    }

private:
    /// The first child of a node with this token; `none` without such a child.
    [[nodiscard]] static MULTIDRAFT_HD node_id find(tree_view const& tree, node_id node, token_id token) noexcept {
        node_range const children = tree.children(node);
        for (node_id c = children.first; c < children.end(); ++c)
            if (tree.tokens[c] == token) return c;
        return none;
    }
};

}  // namespace detail

/// Follows the target's predictions down the trees of a batch, one request per thread. A child with the predicted token
/// is accepted; without such a child the predicted token follows the path. At temperature 0 this is the verdict of
/// `verify::naive`, and the text is that of every lossless verifier, for trees of any law, without reading a row. (Of
/// several children with the predicted token the first is accepted, where `verify::ranked_block` may accept another.)
///
/// The output is described at `verdict_batch`. A request gets the token `none` if a prediction along its path is
/// negative or not in the range of tokens, if its parents do not form a tree, or if the path has no space. Throws
/// `invalid_input` for missing arrays, on a host for bad offsets and negative indices too. O(N + depth log N) per
/// request.
template <execution_policy P, class Id>
auto verify_predictions(P const& policy, tree_batch const& trees, prediction_batch<Id> const& predicted,
                        verdict_batch const& out) {
    return detail::checked(
        policy,
        [&] {
            detail::refuse_bad_trees(trees);
            if (trees.requests == 0) return;
            detail::refuse_null(predicted.tokens, "predicted.tokens");
            detail::refuse_bad_verdicts(out);
            if constexpr (host_policy<P>) {
                detail::refuse_bad_offsets(trees);
                for (std::int64_t i = 0; predicted.row_of != nullptr && i < trees.nodes; ++i)
                    if (predicted.row_of[i] < 0)
                        refuse("predicted.row_of", i, predicted.row_of[i], "an index of a prediction is not negative");
            }
        },
        [&] {
            return for_each(policy, trees.requests, detail::follow_predictions<Id>{trees, predicted, out});
        });
}

}  // namespace MULTIDRAFT_NAMESPACE
