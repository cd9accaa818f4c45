// Verification of a batch of draft trees: one team a request, in one launch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "multidraft/core/config.hpp"
#include "multidraft/core/error.hpp"
#include "multidraft/core/span.hpp"
#include "multidraft/draft/law.hpp"
#include "multidraft/kokkos/batch.hpp"
#include "multidraft/kokkos/team_group.hpp"
#include "multidraft/verify/detail/checks.hpp"
#include "multidraft/verify/verdict.hpp"
#include "multidraft/verify/verifier.hpp"

namespace MULTIDRAFT_NAMESPACE::kokkos {

/// What the verification of R requests answers.
template <class Memory>
struct verdict_batch {
    Kokkos::View<node_id*, Memory> paths;          ///< N entries: those of request r begin at its offset
    Kokkos::View<std::int32_t*, Memory> accepted;  ///< R entries: nodes on the path, the root not counted
    Kokkos::View<token_id*, Memory> next;          ///< R entries: the token that follows; `none`: a fault
    /// For verifiers of whole trees: a row a request, of `verify::scratch_bytes<Verifier>(nodes, depth)` bytes or more
    /// for the largest and deepest tree (allocate a multiple of 16). No entries for verifiers that need none.
    Kokkos::View<std::byte**, Kokkos::LayoutRight, Memory> scratch = {};
};

namespace detail {

template <template <class> class Group, class Space, verify::verifier Verifier, class Memory, class Target, class Draft>
struct verify_kernel {
    using member = typename Kokkos::TeamPolicy<Space>::member_type;

    Verifier verifier;
    tree_batch<Memory> trees;
    Target target;
    Draft draft;
    draw_batch<Memory> draws;
    verdict_batch<Memory> out;

    MULTIDRAFT_HD void operator()(member const& team) const {
        Group<member> const g(team);
        auto const r = static_cast<int>(team.league_rank());
        std::int64_t const first = trees.first(r);
        node_id const nodes = trees.size(r);
        verdict result;
        tree_view const tree = trees(r);
        if (tree.is_tree()) {
            auto source = draws.source(r);
            span<node_id> const path(out.paths.data() + first, static_cast<std::size_t>(nodes));
            span<std::byte> scratch;
            bool fits = true;
            if constexpr (verify::needs_scratch<Verifier>) {
                scratch = {out.scratch.data() + static_cast<std::size_t>(r) * out.scratch.extent(1),
                           out.scratch.extent(1)};
                fits = verify::scratch_bytes<Verifier>(nodes, tree.depth(nodes - 1)) <= scratch.size();
            }
            if (fits)
                result = verify::verify_tree(
                    verifier, g, make_drafted<typename Verifier::law>(tree, trees.certain_of(r)),
                    target(r, first, nodes), draft(r, first, nodes), source, draws.positions(r), path, scratch);
        }
        if (g.leader()) {
            out.accepted(r) = result.next == none ? 0 : result.accepted;
            out.next(r) = result.next;
        }
    }
};

}  // namespace detail

/// Verifies the trees of a batch. Enqueued on `space`, which orders it after its earlier work; nothing is allocated by
/// the library and nothing is waited for, so views must live until the space is fenced.
///
/// - `Verifier`: any verifier of trees, such as `verify::recursive_rejection<law::sequential>`. A tree that its scratch
///   has no room for gets the token `none`.
/// - `drafts`: `drawn_by<Law>(trees)`, the sampler's law; trees of another law than the verifier's do not compile. The
///   last children of a node may have the token `none`: places for children that could not be drawn, so that trees keep
///   one shape. They and what is below them are not looked at. `trees.certain` where the law has certain children.
/// - `target`, `draft`: `logit_batch` or `probability_batch`; `no_draft_rows` where the verifier reads no draft rows.
///   Draft rows as logits have the sampling parameters that their tokens were drawn with; normalisers are made anew.
/// - `out`: the same bits as the verifier gives on the host, request by request, whatever the team size.
///
/// Cost: that of the verifier a request, shared by its team. Throws `invalid_input`, with nothing launched, for extents
/// that do not fit. In the launch nothing throws: where rows hold no distribution or a candidate cannot have been
/// drawn, and where parents are no tree, `next` is `none` and `accepted` 0. `check_trees` says what is wrong with
/// trees.
template <verify::verifier Verifier, template <class> class Group = team_group, class Space, draft_law Law,
          class Memory, class Target, class Draft>
void verify_trees(Space const& space, drafted_batch<Law, Memory> const& drafts, Target const& target,
                  Draft const& draft, draw_batch<Memory> const& draws, verdict_batch<Memory> const& out,
                  launch_shape shape = {}, Verifier verifier = {}) {
    verify::require_law<Verifier, Law>();
    tree_batch<Memory> const& trees = drafts.trees;
    std::size_t const requests = trees.requests();
    std::size_t const nodes = trees.parents.extent(0);
    detail::check_extent(trees.tokens, "trees.tokens", nodes, "there is one token a node");
    if constexpr (counts_certain<typename Verifier::law>)
        detail::check_extent(trees.certain, "trees.certain", nodes,
                             "a tree of this law says of each node how many of its children are certain");
    target.check("target", requests, nodes);
    if constexpr (!std::is_same_v<Draft, no_draft_rows>) {
        draft.check("draft", requests, nodes);
        if (draft.vocabulary() != target.vocabulary())
            refuse("draft.rows.extent(1)", draft.vocabulary(), "draft and target have one vocabulary");
    }
    detail::check_extent(draws.seeds, "draws.seeds", requests, "there is one seed a request");
    detail::check_extent(draws.positions, "draws.positions", requests, "there is one position a request");
    if (draws.requests.extent(0) > 0)
        detail::check_extent(draws.requests, "draws.requests", requests, "there is one number a request, or none");
    detail::check_extent(out.paths, "out.paths", nodes, "there is one entry a node");
    detail::check_extent(out.accepted, "out.accepted", requests, "there is one entry a request");
    detail::check_extent(out.next, "out.next", requests, "there is one entry a request");
    if constexpr (verify::needs_scratch<Verifier>) {
        detail::check_extent(out.scratch, "out.scratch", requests, "there is one row a request");
        if (out.scratch.extent(1) % 16 != 0)
            refuse("out.scratch.extent(1)", out.scratch.extent(1), "a row of scratch is a multiple of 16 bytes");
        auto const address = reinterpret_cast<std::uintptr_t>(out.scratch.data());
        if (address % verify::scratch_alignment != 0)
            refuse("out.scratch.data()", address, "scratch is aligned to 16 bytes");
    }
    auto const policy = team_policy<Group>(space, requests, shape);
    if (requests == 0) return;
    Kokkos::parallel_for("multidraft::verify_trees", policy,
                         detail::verify_kernel<Group, Space, Verifier, Memory, Target, Draft>{verifier, trees, target,
                                                                                              draft, draws, out});
}

}  // namespace MULTIDRAFT_NAMESPACE::kokkos
