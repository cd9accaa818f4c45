// Preparing the rows of a batch: what verifiers need of each row, for all rows at once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/batch/arguments.hpp"
#include "multidraft/batch/detail/check_batch.hpp"
#include "multidraft/batch/detail/refusals.hpp"
#include "multidraft/batch/execution_policy.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/batch/prepared_batch.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/batch/validation.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/rows/softmax.hpp"

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
    refuse_bad_offsets(trees);
    for (std::int32_t b = 0; b < trees.requests; ++b) {
        std::int32_t const request = trees.first_request + b;
        auto const refuse_fault = [request](batch_fault const& f) {
            refuse_reported({f.what, request, f.index, f.token, f.value});
        };
        batch_fault of_request = check_sampling_of(rows, slot, b);
        of_request.index = request;
        refuse_fault(of_request);
        // Tokens are the target's, of which a draft may have fewer.
        index_t const tokens = owner == batch_argument::draft ? max_row_size : rows.vocabulary;
        for (node_id v = 0; v < trees.size(b); ++v) {
            refuse_fault(check_node(drawn_by<law::iid>(trees), {.children_may_be_left_out = true}, tokens, b, v));
            refuse_fault(check_row_index(trees, rows, owner, b, v));
        }
    }
    refuse_candidates(trees, rows, owner);
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

namespace MULTIDRAFT_NAMESPACE {

namespace detail {

/// The state of a row that is not read: it has no mass.
[[nodiscard]] MULTIDRAFT_HD constexpr row_state state_of_no_row() noexcept {
    return {0, 1, not_a_number<float>, infinity<float>, none};
}

/// Prepares the row of node i.
template <class Rows>
struct prepare_row {
    tree_batch trees;
    batch_argument owner;
    Rows rows;
    row_state_batch out;

    template <group G>
    MULTIDRAFT_HD void operator()(G const& g, std::int64_t i) const {
        index_t const kept = kept_sums(rows.vocabulary);
        float* const sums = out.sums == nullptr ? nullptr : out.sums + i * kept;
        index_t const chunks = chunks_of(rows.vocabulary);
        std::uint64_t* const runs = out.runs == nullptr ? nullptr : out.runs + i * chunks;
        if (!row_is_read(trees, owner, rows, i)) {
            if (!g.leader()) return;
            if (runs != nullptr)
                for (index_t c = 0; c < chunks; ++c) runs[c] = 0;
            out.states[i] = state_of_no_row();
            if (sums != nullptr)
                for (index_t c = 0; c < kept; ++c) sums[c] = 0;
            return;
        }
        auto const row = rows.with_sums(g, i, trees.request_of(i));
        if (g.leader()) {
            out.states[i] = state_of(row.row);
            // Of a row of more chunks only the total is used, which is the state's mass.
            if (sums != nullptr)
                for (index_t c = 0; c < kept; ++c) sums[c] = kept == chunks ? row.sums.values[c] : 0;
        }
        if (runs == nullptr) return;
        if (!row.row.may_have_all_mass() && row.row.mass() > 0)
            write_kept_runs(g, row.row, runs);
        else if (g.leader())
            for (index_t c = 0; c < chunks; ++c) runs[c] = ~std::uint64_t{0};
    }
};

template <execution_policy P, class Rows>
auto prepare_rows_of(P const& policy, tree_batch const& trees, batch_argument owner, Rows const& rows,
                     row_state_batch const& out, workspace const& scratch) {
    static_assert(!has_adjustments<Rows>, "multidraft: rows with masks and biases are not prepared");
    static_assert(!has_token_term<Rows>, "multidraft: rows with a term of a token are not prepared");
    static_assert(!has_candidates<Rows>, "multidraft: rows of a few candidates are not prepared");
    static_assert(std::is_same_v<real_of<typename Rows::element>, float>,
                  "multidraft: row states are those of rows that are computed in single precision");
    auto const make = [&](auto const& same) {
        return prepare_row<std::remove_cvref_t<decltype(same)>>{trees, owner, same, out};
    };
    return checked_row_call(policy, trees, owner, rows, make, scratch, [&] {
        refuse_null(out.states, "out.states");
        if (owner == batch_argument::target) refuse_null(out.sums, "out.sums");
        if (out.runs != nullptr && chunks_of(rows.vocabulary) > most_chunks_with_runs)
            refuse("out.runs", "an array", "rows have at most 512 chunks of 4,096 tokens there");
    });
}

}  // namespace detail

/// Computes what verification needs of the target's row of each node of a batch: normaliser, truncation threshold and
/// chunk sums (`row_state_batch`). A `prepared_batch` of the same logits with these numbers replaces `target` in
/// `verify_batch`: same bits in the verdicts, but the walk down a tree reads single entries of a row, and a whole row
/// only where a candidate is rejected. All rows are processed in parallel, not one after another as a walk gets to
/// them.
///
/// - `policy`: as for `verify_batch`; include `cuda/on.cuh` or `kokkos/on.hpp` for those.
/// - `target`: `target_rows` of a `logit_batch` of float, `float16` or `bfloat16`, without masks and biases.
/// - `out`: for each node a state, `kept_sums(vocabulary)` sums and, if wanted, `chunks_of(vocabulary)` words of
///   `runs`, in memory that the policy can access (CUDA: of the device). Rows of nodes that were not drawn are not
///   read; these, and rows that are not distributions, get a state of mass NaN. With `runs` a truncated row takes one
///   more pass here, and a residual on a host reads only the runs of 64 entries in which the row keeps a token.
/// - `scratch`: `row_workspace_size(policy, trees.nodes)` bytes, or none.
///
/// O(nodes x vocabulary): one pass over each row and, with top-k, top-p or min-p, those of `process_logits`. A verifier
/// that decides node by node is usually faster without it on host threads: it then normalises only the rows that its
/// walk reaches.
///
/// On a host throws `invalid_input`, before anything is written, for missing arrays, invalid trees, sampling parameters
/// out of range and negative row indices; with Kokkos for missing arrays. On CUDA returns the launch's error;
/// `cudaErrorInvalidValue` for missing arrays. Nothing is allocated.
template <execution_policy P, logit_row_batch Rows>
auto prepare_batch(P const& policy, tree_batch const& trees, target_rows<Rows> const& target,
                   row_state_batch const& out, workspace const& scratch = {}) {
    return detail::prepare_rows_of(policy, trees, batch_argument::target, target.rows, out, scratch);
}

/// The same for the draft's rows of nodes with children. For engines that draw their own candidates; `draft_batch`
/// writes these states itself (`children_batch::states`). `out.sums` may be null.
template <execution_policy P, logit_row_batch Rows>
auto prepare_batch(P const& policy, tree_batch const& trees, draft_rows<Rows> const& draft, row_state_batch const& out,
                   workspace const& scratch = {}) {
    return detail::prepare_rows_of(policy, trees, batch_argument::draft, draft.rows, out, scratch);
}

}  // namespace MULTIDRAFT_NAMESPACE
