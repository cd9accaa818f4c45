// What calls over all rows of a batch share: which rows are read, and the checks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "multidraft/batch/detail/check_batch.hpp"
#include "multidraft/batch/detail/refusals.hpp"
#include "multidraft/batch/for_each_row.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/batch/tree_batch.hpp"
#include "multidraft/batch/validation.hpp"
#include "multidraft/batch/workspace.hpp"
#include "multidraft/core/config.hpp"
#include "multidraft/core/error.hpp"
#include "multidraft/draft/law.hpp"

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
            refuse_fault(check_node(drawn_by<law::iid>(trees), rows.vocabulary, b, v));
            refuse_fault(check_row_index(trees, rows, owner, b, v));
        }
    }
}

/// Checks the arguments and calls `make(rows)(g, i)` for all nodes. Where the call cannot throw, `has_output` says
/// whether the arrays that it writes to exist; where it can, `refuse_output()` throws if they do not.
template <row_policy P, class Rows, class Make, class Refuse>
auto checked_row_call(P const& policy, tree_batch const& trees, batch_argument owner, Rows const& rows, bool has_output,
                      Make const& make, workspace const& scratch, Refuse const& refuse_output) {
    using result = decltype(for_each_row(policy, trees.nodes, rows, make, scratch));
    bool const is_empty = trees.requests == 0 && trees.nodes == 0;
    if constexpr (std::is_void_v<result>) {
        if (trees.requests < 0) refuse("trees.requests", trees.requests, "a batch has 0 requests or more");
        if (trees.requests == 0 && trees.nodes != 0)
            refuse("trees.nodes", trees.nodes, "a batch of no requests has no nodes");
        if (is_empty) return;
        refuse_null(trees.offsets, "trees.offsets");
        refuse_null(trees.parents, "trees.parents");
        refuse_null(trees.tokens, "trees.tokens");
        refuse_bad_extents(rows, owner == batch_argument::draft ? "draft" : "target");
        refuse_output();
        if constexpr (host_policy<P>) refuse_bad_rows(trees, owner, rows);
        for_each_row(policy, trees.nodes, rows, make, scratch);
    } else {
        bool is_good = trees.requests > 0 && trees.offsets != nullptr && trees.parents != nullptr &&
                       trees.tokens != nullptr && has_output;
        if constexpr (has_data<Rows>) is_good = is_good && rows.data != nullptr;
        is_good = is_good || is_empty;
        return for_each_row(policy, is_good ? trees.nodes : std::int64_t{-1}, rows, make, scratch);
    }
}

}  // namespace MULTIDRAFT_NAMESPACE::detail
