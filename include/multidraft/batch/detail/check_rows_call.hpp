// What calls over all rows of a batch share: which rows are read, and the checks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/batch/arguments.hpp"
#include "multidraft/batch/detail/check_batch.hpp"
#include "multidraft/batch/detail/refusals.hpp"
#include "multidraft/batch/execution_policy.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/batch/validation.hpp"
#include "multidraft/law/law.hpp"

namespace MULTIDRAFT_NAMESPACE::detail {

/// Whether node i of a batch has a row that a verifier may read. `owner` is `target` or `draft`. False in an invalid
/// tree of a padded request.
template <class Rows>
[[nodiscard]] MULTIDRAFT_HD bool row_is_read(tree_batch const& trees, batch_argument owner, Rows const& rows,
                                             std::int64_t i) noexcept {
    std::int32_t const b = trees.request_of(i);
    if (!offsets_are_valid(trees, b) || i < trees.offsets[b] || i >= trees.offsets[b + 1]) return false;
    auto const v = static_cast<node_id>(i - trees.offsets[b]);
    return may_be_read(trees(b), owner, v) && rows.row(i) >= 0;
}

/// Throws for the first fault of the trees and the rows of a batch, entries of rows not included.
template <class Rows>
void refuse_bad_rows(tree_batch const& trees, batch_argument owner, Rows const& rows) {
    auto const slot = owner == batch_argument::draft ? batch_argument::draft_slot_of : batch_argument::target_slot_of;
    for (std::int32_t b = 0; b < trees.requests; ++b) {
        auto const refuse_fault = [b](batch_fault const& f) {
            refuse_reported({f.what, b, f.index, f.token, f.value});
        };
        bool const ends = b + 1 < trees.requests || trees.offsets[b + 1] == trees.nodes;
        if (!offsets_are_valid(trees, b) || !ends)
            refuse_fault({batch_argument::offsets, b, none, static_cast<double>(trees.offsets[b + (ends ? 0 : 1)])});
        batch_fault of_request = check_sampling_of(rows, slot, b);
        of_request.index = b;
        refuse_fault(of_request);
        for (node_id v = 0; v < trees.size(b); ++v) {
            refuse_fault(
                check_node(drawn_by<law::iid>(trees), {.children_may_be_left_out = true}, rows.vocabulary, b, v));
            refuse_fault(check_row_index(trees, rows, owner, b, v));
        }
    }
}

/// Checks the arguments and calls `make(rows)(g, i)` for all nodes. `refuse_output()` throws if the arrays that it
/// writes to do not exist.
template <execution_policy P, class Rows, class Make, class Refuse>
auto checked_row_call(P const& policy, tree_batch const& trees, batch_argument owner, Rows const& rows,
                      Make const& make, workspace const& scratch, Refuse const& refuse_output) {
    return checked(
        policy,
        [&] {
            refuse_bad_trees(trees);
            if (trees.requests == 0) return;
            refuse_bad_extents(rows, owner == batch_argument::draft ? "draft" : "target");
            refuse_output();
            if constexpr (host_policy<P>) refuse_bad_rows(trees, owner, rows);
        },
        [&] { return for_each_row(policy, trees.nodes, rows, make, scratch); });
}

}  // namespace MULTIDRAFT_NAMESPACE::detail
