// Verifying a batch of draft trees whose rows are distributed over ranks, with the same verdicts as on one host.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/batch/arguments.hpp"
#include "multidraft/batch/detail/check_batch.hpp"
#include "multidraft/batch/detail/refusals.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/batch/validation.hpp"
#include "multidraft/batch/verify.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/rows/remembered_rows.hpp"
#include "multidraft/shards/detail/team_call.hpp"
#include "multidraft/shards/rank_team.hpp"
#include "multidraft/shards/shard_group.hpp"
#include "multidraft/shards/validate.hpp"
#include "multidraft/verify/traits.hpp"
#include "multidraft/verify/verifier.hpp"

namespace MULTIDRAFT_NAMESPACE::shards::detail {

/// A processed row: its distribution, and the chunk sums of its weights.
template <class Rows>
using processed_of =
    decltype(std::declval<Rows const&>().with_sums(std::declval<shard_group const&>(), std::int64_t{}, std::int32_t{}));

/// Rows that have to be processed, such as logits (`with_sums`).
template <class Rows>
concept is_processed = requires(Rows const& rows, shard_group const& g) {
    rows.with_sums(g, std::int64_t{}, std::int32_t{});
};

/// Memory for the processed rows of all nodes of a batch.
template <class Rows>
void reserve_rows(std::vector<std::byte>& memory, std::int64_t nodes) {
    using processed = processed_of<Rows>;
    static_assert(std::is_trivially_copyable_v<processed> && alignof(processed) <= alignof(std::max_align_t));
    memory.resize(static_cast<std::size_t>(nodes) * sizeof(processed));
}

/// Calls `use` with the rows of request b: the processed ones in `memory`, or the batch's own.
template <class Rows, class Use>
void with_rows_of(Rows const& rows, [[maybe_unused]] std::vector<std::byte> const& memory, tree_batch const& trees,
                  std::int32_t b, Use const& use) {
    if constexpr (is_processed<Rows>) {
        using processed = processed_of<Rows>;
        auto const* const first = reinterpret_cast<processed const*>(memory.data()) + trees.offsets[b];
        use(prepared_rows<processed>({first, static_cast<std::size_t>(trees.size(b))}, rows.vocabulary));
    } else if constexpr (std::is_same_v<Rows, verify::no_draft_rows>) {
        use(rows);
    } else {
        use(multidraft::detail::request_rows<Rows>(rows, trees, b));
    }
}

}  // namespace MULTIDRAFT_NAMESPACE::shards::detail

namespace MULTIDRAFT_NAMESPACE {

namespace shards::detail {

/// The bytes of a request's part of the workspace: at least `bytes`, rounded up to the alignment.
[[nodiscard]] constexpr std::size_t slice_of_request(std::size_t bytes) noexcept {
    return (bytes + verify::scratch_alignment - 1) / verify::scratch_alignment * verify::scratch_alignment;
}

/// Refuses invalid arguments of `verify_batch` on this rank.
template <verify::verifier Verifier, draft_law Law, class Target, class Draft>
void refuse_bad_call(drafted_batch<Law> const& drafts, Target const& target, Draft const& draft,
                     request_batch const& requests, verdict_batch const& out, workspace const& scratch) {
    namespace batch = multidraft::detail;
    tree_batch const& trees = drafts.trees;
    batch::refuse_bad_arguments(drafts, target, draft, requests);
    if (trees.requests == 0) return;
    batch::refuse_bad_verdicts(out);
    batch::fault_key first = batch::no_fault;
    for (std::int32_t b = 0; b < trees.requests && first == batch::no_fault; ++b)
        first = batch::fault_of_request(drafts, rules_of<Verifier>(), target, draft, requests, b);
    if (first != batch::no_fault)
        refuse_reported(
            batch::report_of(batch::host_batch_group{}, drafts, rules_of<Verifier>(), target, draft, requests, first));
    std::size_t wanted = 0;
    for (std::int32_t b = 0; b < trees.requests; ++b) {
        std::int32_t const depth = trees(b).depth(trees.size(b) - 1);
        if (static_cast<std::size_t>(depth) > out.path_of(trees, b).size())
            refuse("out.path_stride", out.path_stride,
                   "the tree of request " + std::to_string(trees.first_request + b) + " is " + std::to_string(depth) +
                       " levels deep");
        std::size_t const here = verify::scratch_bytes<Verifier>(trees.size(b), depth);
        wanted = here > wanted ? here : wanted;
    }
    if constexpr (verify::needs_scratch<Verifier>)
        batch::refuse_bad_workspace(scratch, slice_of_request(wanted) * static_cast<std::size_t>(trees.requests));
    batch::refuse_candidates(trees, target, batch_argument::target);
    batch::refuse_candidates(trees, draft, batch_argument::draft);
}

/// The draft's rows, or `no_draft_rows` if the verifier reads none.
template <verify::verifier Verifier, class Draft>
[[nodiscard]] auto rows_read([[maybe_unused]] Draft const& draft) {
    if constexpr (verify::reads_draft<Verifier>)
        return draft;
    else
        return verify::no_draft_rows{};
}

/// Processes all rows of both models that may be read, with shared calls of the communicator.
template <class Team, class Target, class Draft>
void process_rows(Team& team, tree_batch const& trees, Target const& target, Draft const& draft) {
    shard_group const g(team);
    std::size_t const of_target = is_processed<Target> ? team.target_memory.nodes.size() : 0;
    std::size_t const of_draft = is_processed<Draft> ? team.draft_memory.nodes.size() : 0;
    if constexpr (is_processed<Target>) reserve_rows<Target>(team.target_memory.rows, trees.nodes);
    if constexpr (is_processed<Draft>) reserve_rows<Draft>(team.draft_memory.rows, trees.nodes);
    auto const process = [&](auto const& rows, auto& memory, std::size_t k) {
        using processed = processed_of<std::remove_cvref_t<decltype(rows)>>;
        std::int64_t const i = memory.nodes[k];
        processed const made = rows.with_sums(g, i, trees.request_of(i));
        ::new (static_cast<void*>(memory.rows.data() + static_cast<std::size_t>(i) * sizeof(processed)))
            processed(made);
    };
    team.run_together(of_target + of_draft, [&](std::size_t k) {
        if (k < of_target) {
            if constexpr (is_processed<Target>) process(target, team.target_memory, k);
        } else {
            if constexpr (is_processed<Draft>) process(draft, team.draft_memory, k - of_target);
        }
    });
}

}  // namespace shards::detail

namespace shards {

/// A verification in progress, as `start_verify_batch` returns it.
template <communicator C, verify::verifier Verifier, draft_law Law, row_batch Target, draft_row_batch Draft>
class verify_call {
public:
    /// Begins the verification; see `start_verify_batch`.
    verify_call(rank_team<C>& team, Verifier const& by, drafted_batch<Law> const& drafts, Target const& target,
                Draft const& draft, request_batch const& requests, verdict_batch const& out, workspace const& scratch)
        : team_(team),
          verifier_(by),
          drafts_(drafts),
          requests_(requests),
          out_(out),
          scratch_(scratch),
          target_(target),
          draft_(detail::rows_read<Verifier>(draft)) {
        multidraft::detail::require_fit<Verifier, Law, Draft>();
        Draft given = draft;
        detail::join_team(target_, team, 0);
        detail::join_team(given, team, drafts.trees.nodes);
        detail::join_team(draft_, team, drafts.trees.nodes);
        detail::agree(team, detail::summary_of(drafts.trees, requests, target_, given),
                      [&] { detail::refuse_bad_call<Verifier>(drafts, target_, given, requests, out, scratch); });
        if (drafts.trees.requests > 0) detail::start_completing(team, drafts.trees, target_, draft_);
        ended_ = drafts.trees.requests == 0;
    }
    verify_call(verify_call const&) = delete;
    verify_call& operator=(verify_call const&) = delete;
    /// Waits for the exchange in progress. Without `wait` no verdicts are written.
    ~verify_call() {
        if (ended_) return;
        try {
            detail::finish_completing(team_, target_, draft_);
        } catch (...) {  // The communicator failed; its next call reports it.
        }
    }

    /// Whether the first exchange has arrived, so that `wait` does not have to wait for it.
    [[nodiscard]] bool test() { return ended_ || team_.is_complete(); }

    /// Finishes the verification and writes the verdicts. Called by all ranks; called again, it does nothing.
    void wait() {
        if (ended_) return;
        ended_ = true;
        tree_batch const& trees = drafts_.trees;
        detail::finish_completing(team_, target_, draft_);
        if (team_.checks() == team_checks::rows)
            refuse_reported(detail::report_of_rows(team_, drafts_, rules_of<Verifier>(), target_, draft_, requests_));
        detail::process_rows(team_, trees, target_, draft_);
        shard_group const g(team_);
        std::size_t const each = scratch_.size / static_cast<std::size_t>(trees.requests) / verify::scratch_alignment *
                                 verify::scratch_alignment;
        team_.run_together(static_cast<std::size_t>(trees.requests), [&](std::size_t k) {
            auto const b = static_cast<std::int32_t>(k);
            span<std::byte> const memory(static_cast<std::byte*>(scratch_.data) + k * each, each);
            detail::with_rows_of(target_, team_.target_memory.rows, trees, b, [&](auto const& p) {
                detail::with_rows_of(draft_, team_.draft_memory.rows, trees, b, [&](auto const& q) {
                    multidraft::detail::verify_rows_of(g, verifier_, b, trees, requests_, p, q, out_, memory);
                });
            });
        });
    }

private:
    rank_team<C>& team_;
    Verifier verifier_;
    drafted_batch<Law> drafts_;
    request_batch requests_;
    verdict_batch out_;
    workspace scratch_;
    Target target_;
    decltype(detail::rows_read<Verifier>(std::declval<Draft const&>())) draft_;
    bool ended_ = false;
};

}  // namespace shards

/// Bytes of workspace for `verify_batch` on a rank of a team, beside the team's own memory, for batches of up to
/// `requests` trees of up to `nodes` nodes (root included) and `depth` levels below the root: the verifier's scratch
/// for each tree, since all are verified together. Aligned to 16 bytes.
template <verify::verifier Verifier, shards::communicator C>
[[nodiscard]] constexpr std::size_t verify_workspace_size(shards::rank_team<C> const&, std::int32_t requests,
                                                          node_id nodes, std::int32_t depth) {
    return static_cast<std::size_t>(requests) *
           shards::detail::slice_of_request(verify::scratch_bytes<Verifier>(nodes, depth));
}

/// Verifies the trees of a batch whose rows are distributed over the ranks of a team. The arguments are those of the
/// call on a host (`batch/verify.hpp`). Called by all ranks with the same trees and requests; all get the same
/// verdicts, which are those of the host for whole rows.
///
/// - `target`, `draft`: `shards::shard_batch` for rows of which each rank has some columns. Other rows are on every
///   rank: the rows of a draft model that is not distributed are a `logit_batch`, as on a host.
/// - `scratch`: `verify_workspace_size<Verifier>(team, ..)` bytes.
///
/// Calls of the communicator: one to compare arguments (`team_checks`), and one to complete chunks and to send the
/// entries of rows at the trees' tokens to all ranks; then all rows of the batch are processed together, and all trees
/// are verified together. Either step takes as many calls as the row, or the tree, that needs the most.
///
/// Throws the same `invalid_input` on all ranks, before anything is written, if `verify_batch` on a host would refuse
/// the arguments of any rank, or if a rank's trees, requests or sampling parameters differ from those of rank 0. With
/// `team_checks::none` only the rank at fault throws. A row that is not a distribution affects its request only, which
/// gets the token `none` on all ranks; with `team_checks::rows` it is an error.
template <shards::communicator C, verify::verifier Verifier, draft_law Law, row_batch Target, draft_row_batch Draft>
void verify_batch(shards::rank_team<C>& team, Verifier const& verifier, drafted_batch<Law> const& drafts,
                  target_rows<Target> const& target, draft_rows<Draft> const& draft, request_batch const& requests,
                  verdict_batch const& out, workspace const& scratch = {}) {
    shards::verify_call<C, Verifier, Law, Target, Draft>(team, verifier, drafts, target.rows, draft.rows, requests, out,
                                                         scratch)
        .wait();
}

/// Begins `verify_batch` and returns while the first exchange of rows is in progress, with a communicator that can
/// (`shards::has_all_to_all`, as MPI's). The rank may do other work until it calls `wait`, which writes the
/// verdicts. All arguments must remain valid and unchanged until then, and the team must not be used.
///
///     auto call = start_verify_batch(team, verifier, drawn_by<Law>(trees), target_rows(p), draft_rows(q),
///                                    requests, out, scratch);
///     prepare_the_next_step();
///     call.wait();
///
/// Throws like `verify_batch`; faults in the entries of rows (`team_checks::rows`) are thrown by `wait`.
template <shards::communicator C, verify::verifier Verifier, draft_law Law, row_batch Target, draft_row_batch Draft>
[[nodiscard]] shards::verify_call<C, Verifier, Law, Target, Draft> start_verify_batch(
    shards::rank_team<C>& team, Verifier const& verifier, drafted_batch<Law> const& drafts,
    target_rows<Target> const& target, draft_rows<Draft> const& draft, request_batch const& requests,
    verdict_batch const& out, workspace const& scratch = {}) {
    return {team, verifier, drafts, target.rows, draft.rows, requests, out, scratch};
}

}  // namespace MULTIDRAFT_NAMESPACE
