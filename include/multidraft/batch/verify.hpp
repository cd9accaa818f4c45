// Verifying a batch of draft trees on host threads, and one of its trees by any group.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <string>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/batch/arguments.hpp"
#include "multidraft/batch/detail/check_batch.hpp"
#include "multidraft/batch/detail/refusals.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/batch/validation.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/group/optional_members.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/remembered_rows.hpp"
#include "multidraft/rows/row_source.hpp"
#include "multidraft/tree/absent_tokens.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/detail/checks.hpp"
#include "multidraft/verify/traits.hpp"
#include "multidraft/verify/verdict.hpp"
#include "multidraft/verify/verifier.hpp"

namespace MULTIDRAFT_NAMESPACE::detail {

/// The distributions of the tree of request b. It refers to the call's arguments and locates a row at each call, so
/// that in a launch it occupies no registers.
template <class Rows>
struct request_rows {
    Rows const& batch;
    tree_batch const& trees;
    std::int32_t b;
    int prefetched = 0;  ///< the most rows that `prefetch` fetches

    [[nodiscard]] MULTIDRAFT_HD index_t rows() const noexcept { return trees.size(b); }
    [[nodiscard]] MULTIDRAFT_HD index_t size() const noexcept { return batch.vocabulary; }
    template <group G>
    [[nodiscard]] MULTIDRAFT_HD auto operator()(G const& g, node_id node) const {
        return batch(g, trees.offsets[b] + node, b);
    }
    /// The row with the chunk sums of its weights (see `verify::emit_at`).
    template <group G>
    requires requires(Rows const& rows, G const& g) { rows.with_sums(g, std::int64_t{}, std::int32_t{}); }
    [[nodiscard]] MULTIDRAFT_HD auto with_sums(G const& g, node_id node) const {
        return batch.with_sums(g, trees.offsets[b] + node, b);
    }
    /// Prefetches the rows of the first of some nodes, of which one may be read next, on groups that can.
    template <group G>
    requires requires(Rows const& rows, G const& g) {
        rows.with_sums(g, std::int64_t{}, std::int32_t{});
        g.prefetch(rows.data + rows.row(std::int64_t{}) * rows.stride(), std::int64_t{});
    }
    MULTIDRAFT_HD void prefetch(G const& g, node_range nodes) const {
        MULTIDRAFT_ROLL
        for (node_id k = 0; k < nodes.count && k < prefetched; ++k)
            g.prefetch(batch.data + batch.row(trees.offsets[b] + nodes.first + k) * batch.stride(),
                       std::int64_t{batch.vocabulary} * static_cast<std::int64_t>(sizeof(typename Rows::element)));
    }
};

/// The requirements on the types of a batched verification, one message each.
template <verify::verifier Verifier, draft_law Law, class Draft>
MULTIDRAFT_HD constexpr void require_fit() noexcept {
    verify::require_law<Verifier, Law>();
    static_assert(!std::is_same_v<Draft, verify::no_draft_rows> || !verify::reads_draft<Verifier>,
                  "multidraft: this verifier reads the draft's rows: say draft_rows(q) with the rows that the tokens "
                  "were drawn from");
}

/// Whether all tokens of a tree are below the vocabulary, or absent. O(nodes).
[[nodiscard]] MULTIDRAFT_HD constexpr bool tokens_are_below(tree_view tree, index_t vocabulary) noexcept {
    bool good = true;
    for (node_id v = 1; v < tree.size(); ++v) good = good & (tree.tokens[v] < vocabulary);
    return good;
}

/// Verifies the tree of request b from rows of its nodes. The group's lanes run inside a launch and do not throw. An
/// invalid tree (of a padded request, say), one with a token outside the vocabulary, one that lacks children without a
/// reason (`is_complete`), one deeper than the path or too large for the scratch, and whatever the verifier refuses
/// give 0 accepted nodes and the token `none`.
template <verify::verifier Verifier, group G, class Target, class Draft>
MULTIDRAFT_HD void verify_rows_of(G const& g, Verifier const& verifier, std::int32_t b, tree_batch const& trees,
                                  request_batch const& requests, Target const& target, Draft const& draft,
                                  verdict_batch const& out, span<std::byte> scratch) {
    tree_view const tree = trees(b);
    node_id const nodes = tree.size();
    span<node_id> const path = out.path_of(trees, b);
    verdict answer;
    bool const is_tree = tree.is_tree() && tokens_are_below(tree, target.size()) &&
                         (verify::children_may_be_left_out<Verifier> || is_complete(tree));
    std::int32_t const depth = is_tree ? tree.depth(nodes - 1) : 0;
    if (is_tree && static_cast<std::size_t>(depth) <= path.size() &&
        verify::scratch_bytes<Verifier>(nodes, depth) <= scratch.size() &&
        (!verify::needs_scratch<Verifier> ||
         reinterpret_cast<std::uintptr_t>(scratch.data()) % verify::scratch_alignment == 0)) {
        addressed_source source{requests.uniforms(b)};
        answer =
            verify::verify_tree(verifier, g, make_drafted<typename Verifier::law>(tree, trees.certain_of(b)),
                                target_rows(target), draft_rows(draft), source, requests.position(b), path, scratch);
    }
    if (g.leader()) {
        out.accepted[b] = answer.next == none ? 0 : answer.accepted;
        out.next[b] = answer.next;
    }
}

/// Verifies the tree of request b of a batch, in `scratch` if the verifier needs some (`verify::scratch_bytes`). Trees
/// of another law than the verifier's do not compile. `prefetched`: how many rows at a time are prefetched by groups
/// that can (see `prefetch`).
template <verify::verifier Verifier, group G, draft_law Law, row_batch Target, draft_row_batch Draft>
MULTIDRAFT_HD void verify_request(G const& g, Verifier const& verifier, std::int32_t b,
                                  drafted_batch<Law> const& drafts, target_rows<Target> const& target,
                                  draft_rows<Draft> const& draft, request_batch const& requests,
                                  verdict_batch const& out, span<std::byte> scratch = {}, int prefetched = 0) {
    require_fit<Verifier, Law, Draft>();
    request_rows<Target> const p{target.rows, drafts.trees, b, prefetched};
    if constexpr (std::is_same_v<Draft, verify::no_draft_rows>)
        verify_rows_of(g, verifier, b, drafts.trees, requests, p, verify::no_draft_rows{}, out, scratch);
    else
        verify_rows_of(g, verifier, b, drafts.trees, requests, p, request_rows<Draft>{draft.rows, drafts.trees, b}, out,
                       scratch);
}

}  // namespace MULTIDRAFT_NAMESPACE::detail

namespace MULTIDRAFT_NAMESPACE {

namespace detail {

/// Bytes of a task reserved for a row that is remembered.
inline constexpr std::size_t remembered_row_bytes = 160;

/// Rows of a batch of which there is something to remember that fits.
template <class Rows, class Row = remembered_row<row_of<request_rows<Rows>, host_batch_group>>>
concept can_be_remembered =
    !has_states<Rows> && has_with_sums<request_rows<Rows>, host_batch_group> && std::is_trivially_copyable_v<Row> &&
    sizeof(Row) <= remembered_row_bytes && alignof(Row) <= 16;

/// The rows of a request, remembered in `memory`: `remembered_row_bytes` for each node, aligned to 16 bytes.
template <class Rows>
[[nodiscard]] auto remembered_in(span<std::byte> memory, request_rows<Rows> const& rows) {
    using entry = remembered_row<row_of<request_rows<Rows>, host_batch_group>>;
    auto* const entries = reinterpret_cast<entry*>(memory.data());
    auto const n = static_cast<std::size_t>(rows.rows());
    for (std::size_t v = 0; v < n; ++v) ::new (static_cast<void*>(entries + v)) entry;
    return remembered_rows<request_rows<Rows>, host_batch_group>(rows, span<entry>(entries, n));
}

/// Bytes of one task: scratch, and the remembered rows of both models for verifiers of whole trees.
template <verify::verifier Verifier>
[[nodiscard]] constexpr std::size_t task_bytes(node_id nodes, std::int32_t depth) {
    std::size_t const rows =
        verify::needs_scratch<Verifier> ? 2 * static_cast<std::size_t>(nodes) * remembered_row_bytes : 0;
    return verify::scratch_bytes<Verifier>(nodes, depth) + rows;
}

/// Calls `use` with the rows of request b, remembered in `memory` where that saves passes, and with the rest of
/// `memory`.
template <verify::verifier Verifier, class Rows, class Use>
void with_rows(Rows const& rows, tree_batch const& trees, std::int32_t b, span<std::byte> memory, Use const& use) {
    if constexpr (std::is_same_v<Rows, verify::no_draft_rows>) {
        use(rows, memory);
    } else {
        request_rows<Rows> const plain{rows, trees, b};
        if constexpr (verify::needs_scratch<Verifier> && can_be_remembered<Rows>) {
            std::size_t const of_rows = static_cast<std::size_t>(trees.size(b)) * remembered_row_bytes;
            use(remembered_in(memory.first(of_rows), plain), memory.subspan(of_rows));
        } else {
            use(plain, memory);
        }
    }
}

}  // namespace detail

/// Bytes of workspace for `verify_batch` on a host, for batches of up to `requests` trees of up to `nodes` nodes (root
/// included) and `depth` levels below the root: 0 for verifiers without scratch. Nondecreasing in its
/// arguments. Aligned to 16 bytes; `verify::scratch_memory` owns such memory.
template <verify::verifier Verifier, host_policy P>
[[nodiscard]] std::size_t verify_workspace_size(P const& policy, std::int32_t requests, node_id nodes,
                                                std::int32_t depth) {
    return static_cast<std::size_t>(detail::tasks_of(policy, requests)) * detail::task_bytes<Verifier>(nodes, depth);
}

/// Verifies the trees of a batch on host threads with a verifier of `multidraft/verify/`, such as
/// `verify::recursive_rejection<law::sequential>{}`. The same call runs on CUDA, Kokkos and ranks, with their policies.
///
/// - `policy`: `host_threads(n)`, or `host_tasks` over an engine's own pool.
/// - `drafts`: `drawn_by<Law>(trees)`, the sampler's law; trees of another law than the verifier's do not compile.
/// - `target`: `target_rows(p)` of a `logit_batch`, a `prepared_batch` (`prepare_batch`), a `probability_batch` or an
///   engine's own `row_batch`; row i is the target's distribution after node i of the batch.
/// - `draft`: `draft_rows(q)` of the same. Rows of nodes without children are not read. For verifiers that read none:
///   `draft_rows(verify::no_draft_rows{})`.
/// - `out`: see `verdict_batch`.
/// - `scratch`: `verify_workspace_size<Verifier>(policy, ..)` bytes; may be left out where that is 0.
///
/// The decisions have the same bits for any number of threads, and are those of the verifier for each request alone.
/// Each request is verified by one thread; a thread takes the next request when it is done. Nothing is allocated.
///
/// Throws `invalid_input` before anything is written, naming argument, index, value and request: for invalid trees and
/// shapes that the verifier does not take, tokens outside the vocabulary, children impossible under the law or left out
/// without a reason, requests of one seed and position without ids, sampling parameters out of range, a path that is
/// too short, too little workspace. These checks take O(nodes), or O(nodes x children) where the law draws different
/// tokens or has certain ones, and O(requests) for each request without ids. Faults in the entries of rows affect one
/// request only: it gets the token `none` and 0 accepted nodes, as on every machine, and `validate_batch` reports why.
template <host_policy P, verify::verifier Verifier, draft_law Law, row_batch Target, draft_row_batch Draft>
void verify_batch(P const& policy, Verifier const& verifier, drafted_batch<Law> const& drafts,
                  target_rows<Target> const& target, draft_rows<Draft> const& draft, request_batch const& requests,
                  verdict_batch const& out, workspace const& scratch = {}) {
    detail::require_fit<Verifier, Law, Draft>();
    tree_batch const& trees = drafts.trees;
    detail::refuse_bad_arguments(drafts, target.rows, draft.rows, requests);
    if (trees.requests == 0) return;
    detail::refuse_bad_verdicts(out);

    std::atomic<detail::fault_key> first{detail::no_fault};
    std::atomic<std::int32_t> without_room{std::numeric_limits<std::int32_t>::max()};
    std::atomic<std::size_t> each{0};  // bytes of a task
    detail::parallel_for(policy, trees.requests, [&](std::int32_t b, int) {
        detail::fault_key const fault =
            detail::fault_of_request(drafts, rules_of<Verifier>(), target.rows, draft.rows, requests, b);
        detail::lower(first, fault);
        if (fault != detail::no_fault) return;
        std::int32_t const depth = trees(b).depth(trees.size(b) - 1);
        if (static_cast<std::size_t>(depth) > out.path_of(trees, b).size()) detail::lower(without_room, b);
        detail::raise(each, detail::task_bytes<Verifier>(trees.size(b), depth));
    });
    refuse_reported(detail::report_of(detail::host_batch_group{}, drafts, rules_of<Verifier>(), target.rows, draft.rows,
                                      requests, first));
    detail::refuse_candidates(trees, target.rows, batch_argument::target);
    detail::refuse_candidates(trees, draft.rows, batch_argument::draft);
    if (std::int32_t const b = without_room; b < trees.requests)
        refuse("out.path_stride", out.path_stride,
               "the tree of request " + std::to_string(trees.first_request + b) + " is " +
                   std::to_string(trees(b).depth(trees.size(b) - 1)) + " levels deep");
    std::size_t const bytes = each;
    if constexpr (verify::needs_scratch<Verifier>) {
        std::size_t const wanted = bytes * static_cast<std::size_t>(detail::tasks_of(policy, trees.requests));
        detail::refuse_bad_workspace(scratch, wanted);
    }

    detail::parallel_for(policy, trees.requests, [&](std::int32_t b, int task) {
        span<std::byte> const mine(static_cast<std::byte*>(scratch.data) + static_cast<std::size_t>(task) * bytes,
                                   bytes);
        detail::with_rows<Verifier>(target.rows, trees, b, mine, [&](auto const& p, span<std::byte> rest) {
            detail::with_rows<Verifier>(draft.rows, trees, b, rest, [&](auto const& q, span<std::byte> left) {
                detail::verify_rows_of(detail::host_batch_group{}, verifier, b, trees, requests, p, q, out, left);
            });
        });
    });
}

}  // namespace MULTIDRAFT_NAMESPACE
