// Verification of a batch of draft trees with Kokkos: one team per request, in one launch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <cstddef>
#include <cstdint>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/batch/arguments.hpp"
#include "multidraft/batch/detail/refusals.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/batch/verify.hpp"
#include "multidraft/kokkos/on.hpp"
#include "multidraft/kokkos/team_group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/verify/verifier.hpp"

namespace MULTIDRAFT_NAMESPACE {

namespace kokkos::detail {

template <class Space, template <class> class Group, verify::verifier Verifier, class Target, class Draft>
struct verify_kernel {
    using member = typename Kokkos::TeamPolicy<Space>::member_type;

    Verifier verifier;
    drafted_batch<typename Verifier::law> drafts;
    target_rows<Target> target;
    draft_rows<Draft> draft;
    request_batch requests;
    verdict_batch out;
    std::byte* scratch;
    std::size_t each;

    MULTIDRAFT_HD void operator()(member const& team) const {
        Group<member> const g(team);
        auto const b = static_cast<std::int32_t>(team.league_rank());
        multidraft::detail::verify_request(g, verifier, b, drafts, target, draft, requests, out,
                                           span<std::byte>(scratch + static_cast<std::size_t>(b) * each, each));
    }
};

}  // namespace kokkos::detail

/// Bytes of workspace for `verify_batch` with Kokkos, for batches of up to `requests` trees of up to `nodes` nodes
/// (root included), `depth` levels below the root: the batch's `path_stride`, or `nodes` where that is 0. 0 for
/// verifiers that decide node by node. Nondecreasing in its arguments. Aligned to 16 bytes.
template <verify::verifier Verifier, class Space, template <class> class Group>
[[nodiscard]] constexpr std::size_t verify_workspace_size(kokkos::space_policy<Space, Group> const&,
                                                          std::int32_t requests, node_id nodes, std::int32_t depth) {
    return static_cast<std::size_t>(requests) * verify::scratch_bytes<Verifier>(nodes, depth);
}

/// Verifies the trees of a batch with Kokkos, with the arguments of every backend (`batch/verify.hpp`):
/// `verify_batch(kokkos::on(space), verifier, drafts, target_rows(p), draft_rows(q), requests, out, workspace)`, one
/// team per request. `kokkos/from_views.hpp` makes the structs from views.
///
/// `scratch`: `verify_workspace_size<Verifier>(..)` bytes; verifiers of whole trees also need `trees.largest`. The
/// decisions have the same bits as on the host, whatever the team size. Throws `invalid_input`, with nothing launched,
/// for missing arrays, vocabularies that differ and an unsuitable workspace. Nothing throws in the launch: an invalid
/// tree, a path or scratch that is too small and rows that are not distributions give the token `none` and 0 accepted
/// nodes, and `validate_batch` reports why.
template <class Space, template <class> class Group, verify::verifier Verifier, draft_law Law, row_batch Target,
          draft_row_batch Draft>
void verify_batch(kokkos::space_policy<Space, Group> const& policy, Verifier const& verifier,
                  drafted_batch<Law> const& drafts, target_rows<Target> const& target, draft_rows<Draft> const& draft,
                  request_batch const& requests, verdict_batch const& out, workspace const& scratch = {}) {
    detail::require_fit<Verifier, Law, Draft>();
    tree_batch const& trees = drafts.trees;
    detail::refuse_bad_arguments(drafts, target.rows, draft.rows, requests);
    if (trees.requests == 0) return;
    detail::refuse_bad_verdicts(out);
    std::size_t each = 0;
    if constexpr (verify::needs_scratch<Verifier>) {
        detail::refuse_bad_largest(trees);
        each = verify::scratch_bytes<Verifier>(trees.largest, out.deepest(trees.largest));
        std::size_t const wanted = each * static_cast<std::size_t>(trees.requests);
        detail::refuse_bad_workspace(scratch, wanted);
    }
    auto const teams =
        kokkos::team_policy<Group>(policy.space, static_cast<std::size_t>(trees.requests), policy.options);
    // Named with the verifier's law, so that another law gives a single message.
    Kokkos::parallel_for("multidraft::verify_batch", teams,
                         kokkos::detail::verify_kernel<Space, Group, Verifier, Target, Draft>{
                             verifier, drawn_by<typename Verifier::law>(trees), target, draft, requests, out,
                             static_cast<std::byte*>(scratch.data), each});
}

}  // namespace MULTIDRAFT_NAMESPACE
