// The verification of one tree of a batch by any group: the work of host threads, CUDA and Kokkos for each request.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/batch/arguments.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
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

/// Verifies the tree of request b from rows of its nodes. The group's lanes run inside a launch and do not throw. An
/// invalid tree (of a padded request, say), one that lacks children without a reason (`is_complete`), one deeper than
/// the path or too large for the scratch, and whatever the verifier refuses give 0 accepted nodes and the token `none`.
template <verify::verifier Verifier, group G, class Target, class Draft>
MULTIDRAFT_HD void verify_rows_of(G const& g, Verifier const& verifier, std::int32_t b, tree_batch const& trees,
                                  request_batch const& requests, Target const& target, Draft const& draft,
                                  verdict_batch const& out, span<std::byte> scratch) {
    tree_view const tree = trees(b);
    node_id const nodes = tree.size();
    span<node_id> const path = out.path_of(trees, b);
    verdict answer;
    bool const is_tree = tree.is_tree() && (verify::children_may_be_left_out<Verifier> || is_complete(tree));
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
