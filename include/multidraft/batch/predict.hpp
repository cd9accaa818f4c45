// The target's most likely token after each node of a batch: what verification at temperature 0 follows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/batch/detail/check_rows_call.hpp"
#include "multidraft/batch/execution_policy.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/batch/target_and_draft.hpp"
#include "multidraft/batch/tree_batch.hpp"
#include "multidraft/batch/validation.hpp"
#include "multidraft/batch/workspace.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/rows/most_likely.hpp"

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
/// then verifies the batch at temperature 0 and reads no row; its verdicts are those of `verify_batch` with any
/// lossless verifier at temperature 0.
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

}  // namespace MULTIDRAFT_NAMESPACE
