// Drawing the children of a level of a batch, wherever a call runs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/batch/detail/check_batch.hpp"
#include "multidraft/batch/detail/refusals.hpp"
#include "multidraft/batch/draft_entry.hpp"
#include "multidraft/batch/execution_policy.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/batch/level_batch.hpp"
#include "multidraft/batch/request_batch.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/batch/target_and_draft.hpp"
#include "multidraft/batch/validation.hpp"
#include "multidraft/batch/workspace.hpp"
#include "multidraft/draft/sampler.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/tree/topology.hpp"

namespace MULTIDRAFT_NAMESPACE {

namespace detail {

/// Refuses entry e of a level if its children cannot be drawn.
template <class Law, logit_row_batch Rows>
void check_entry(level_batch const& level, Rows const& rows, request_batch const& requests, children_batch const& out,
                 std::int32_t e) {
    std::int32_t const b = level.requests[e];
    if (b < 0) refuse("level.requests", e, b, "a request has a number from 0 on");
    node_id const node = level.nodes[e];
    if (node < 0 || node >= max_nodes) refuse("level.nodes", e, node, "a node lies in [0, 2^24)");
    // Among the entries of the request next to this one: those of a request usually follow one another.
    if constexpr (!std::is_same_v<Law, law::deterministic>)
        for (std::int32_t other = e; other-- > 0 && level.requests[other] == b;)
            if (level.nodes[other] == node)
                refuse("level.nodes", e, node,
                       "entry " + std::to_string(other) + " is the same node: both would get the same draws");
    if (level.depths != nullptr && level.depths[e] < 0)
        refuse("level.depths", e, level.depths[e], "a node lies 0 levels below the root or more");
    if (level.wanted != nullptr && level.wanted[e] < 0)
        refuse("level.wanted", e, level.wanted[e], "a node is to have 0 children or more");
    if (level.wanted != nullptr && out.first == nullptr && level.wanted[e] > out.stride)
        refuse("level.wanted", e, level.wanted[e], "there are as many places for an entry as the stride says");
    if (out.first != nullptr && out.first[e] < 0) refuse("out.first", e, out.first[e], "tokens begin at 0 or later");
    if (out.node_index != nullptr && out.node_index[e] < 0)
        refuse("out.node_index", e, out.node_index[e], "nodes are counted from 0");
    if (requests.slot(b) < 0) refuse("slot_of", b, requests.slot(b), "a slot is not negative");
    if (requests.position(b) < 0) refuse("positions", b, requests.position(b), "a position is not negative");
    if constexpr (has_slots<Rows>)
        if (rows.slot_of != nullptr && rows.slot_of[b] < 0)
            refuse("draft.slot_of", b, rows.slot_of[b], "a slot is not negative");
    batch_fault const f = check_sampling(rows.sampling_of(b), batch_argument::draft_temperature);
    refuse_reported({f.what, b, b, none, f.value});
    if (rows.row(e) < 0) refuse("draft.row_of", e, rows.row(e), "the row of an entry is not negative");
    batch_fault const of_bias = check_adjustments(rows, batch_argument::draft, e, e);
    refuse_reported({of_bias.what, b, of_bias.index, of_bias.token, of_bias.value});
}

/// The work on one entry of a level.
template <sampler Sampler, logit_row_batch Rows>
struct draw_children {
    Sampler sampler;
    level_batch level;
    Rows rows;
    request_batch requests;
    children_batch out;

    template <group G>
    MULTIDRAFT_HD void operator()(G const& g, std::int64_t e) const {
        draft_entry(g, sampler, static_cast<std::int32_t>(e), level, rows, requests, out);
    }
};

}  // namespace detail

/// Bytes of workspace for `draft_batch`, for levels of up to `entries` nodes: `row_workspace_size`.
template <execution_policy P>
[[nodiscard]] constexpr std::size_t draft_workspace_size(P const& policy, std::int32_t entries) noexcept {
    return row_workspace_size(policy, entries);
}

/// Draws the children of the nodes of a level, with a sampler of `multidraft/draft/` such as `draft::sequential{}`: for
/// each entry the row's normaliser and the draws. On a device one launch does both, with a group of threads for each
/// entry.
///
/// - `policy`: see `verify_batch`.
/// - `rows`: `draft_rows` of a `logit_batch` or an `adjusted_batch`; row e is that of entry e.
/// - `out`: the same tokens as for each entry alone with the same seed, wherever they are drawn. If a row's support is
///   smaller than the number of children, or the row is not a distribution, the remaining children are `support_ended`;
///   `verify_batch` accepts trees with such children, with the law of the draws: `drawn_by<Sampler::law>(trees)`.
/// - `scratch`: `draft_workspace_size(policy, entries)` bytes, or none, which excludes grid-wide launches.
///
/// A sampler of a law with certain children writes their number to `out.certain`. Nothing is allocated. On a host
/// throws `invalid_input`, before anything is written, for invalid entries, a node that a request has twice in a row of
/// its entries (unless nothing is drawn, `law::deterministic`), sampling parameters and arrays. In a launch the
/// contents of arrays are not checked; for the rest Kokkos throws, and a stream returns `cudaErrorInvalidValue`
/// (`cuda::last_refusal`).
template <execution_policy P, sampler Sampler, logit_row_batch Rows>
auto draft_batch(P const& policy, Sampler const& sampler, level_batch const& level, draft_rows<Rows> const& rows,
                 request_batch const& requests, children_batch const& out, workspace const& scratch = {}) {
    return detail::checked(
        policy,
        [&] {
            detail::refuse_bad_level<Sampler>(level, rows.rows, requests, out);
            for (std::int32_t e = 0; host_policy<P> && e < level.entries; ++e)
                detail::check_entry<typename Sampler::law>(level, rows.rows, requests, out, e);
        },
        [&] {
            auto const make = [&](auto const& same) {
                return detail::draw_children<Sampler, std::remove_cvref_t<decltype(same)>>{sampler, level, same,
                                                                                           requests, out};
            };
            return for_each_row(policy, level.entries, rows.rows, make, scratch);
        });
}

}  // namespace MULTIDRAFT_NAMESPACE
