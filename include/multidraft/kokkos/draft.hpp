// Drafting a level of a batch of trees: one team a node, in one launch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <cstddef>
#include <cstdint>

#include "multidraft/core/config.hpp"
#include "multidraft/core/error.hpp"
#include "multidraft/core/span.hpp"
#include "multidraft/distribution/sampling_params.hpp"
#include "multidraft/distribution/softmax.hpp"
#include "multidraft/draft/sampler.hpp"
#include "multidraft/kokkos/batch.hpp"
#include "multidraft/kokkos/team_group.hpp"
#include "multidraft/random/draw_site.hpp"

namespace MULTIDRAFT_NAMESPACE::kokkos {

/// The nodes to be given children, one an entry: the leaves of the trees of R requests.
template <class Memory>
struct level_batch {
    Kokkos::View<std::int32_t const*, Memory> requests;  ///< whose node it is, in [0, R)
    Kokkos::View<node_id const*, Memory> nodes;          ///< its number in that request's tree
    Kokkos::View<index_t const*, Memory> wanted;         ///< children; no entries: as many as there is room for

    level_batch() = default;
    /// The views are shared, not copied; without `children` every node gets as many as there is room for.
    level_batch(decltype(requests) of_requests, decltype(nodes) of_nodes, decltype(wanted) children = {})
        : requests(of_requests), nodes(of_nodes), wanted(children) {}
};

/// The children drawn: those of entry m are `tokens(m, 0) .. tokens(m, counts(m) - 1)`, in the order drawn, the first
/// `certain(m)` of them no draws.
template <class Memory>
struct children_batch {
    Kokkos::View<token_id**, Kokkos::LayoutRight, Memory> tokens;  ///< a row an entry; its length is the room
    Kokkos::View<index_t*, Memory> counts;
    Kokkos::View<index_t*, Memory> certain;  ///< no entries: for laws without certain children

    children_batch() = default;
    /// The views are shared, not copied; `certain_counts` is left out for laws without certain children.
    children_batch(decltype(tokens) children, decltype(counts) children_counts, decltype(certain) certain_counts = {})
        : tokens(children), counts(children_counts), certain(certain_counts) {}
};

namespace detail {

template <template <class> class Group, class Space, sampler Sampler, class Memory, class View>
struct draft_kernel {
    using member = typename Kokkos::TeamPolicy<Space>::member_type;

    Sampler sampler;
    level_batch<Memory> level;
    View logits;
    Kokkos::View<sampling_params const*, Memory> sampling;
    draw_batch<Memory> draws;
    children_batch<Memory> out;

    MULTIDRAFT_HD void operator()(member const& team) const {
        Group<member> const g(team);
        auto const m = static_cast<int>(team.league_rank());
        int const r = level.requests(m);
        auto const room = static_cast<index_t>(out.tokens.extent(1));
        index_t wanted = level.wanted.extent(0) > 0 ? level.wanted(m) : room;
        wanted = wanted < 0 ? 0 : (wanted < room ? wanted : room);
        drawn_children drawn;
        if (wanted > 0) {
            auto source = draws.source(r);
            auto q = process_logits(g, rows_from(logits, m, 1)(0), sampling(r));
            span<token_id> const children(out.tokens.data() + m * static_cast<std::int64_t>(out.tokens.stride(0)),
                                          static_cast<std::size_t>(wanted));
            if (q.sums.total > 0)
                drawn = sampler(g, q.row, q.sums, source, draw_site{draws.positions(r), level.nodes(m)}, children);
        }
        team.team_barrier();  // until here every member writes the children, those not drawn among them
        if (g.leader()) {
            out.counts(m) = drawn.count;
            if (out.certain.extent(0) > 0) out.certain(m) = drawn.certain;
            for (index_t k = drawn.count; k < room; ++k) out.tokens(m, k) = none;
        }
    }
};

}  // namespace detail

/// Draws the children of every node of a level. Enqueued on `space`, which orders it after its earlier work; nothing is
/// allocated by the library and nothing is waited for.
///
/// - `Sampler`: `draft::iid`, `sequential`, `gumbel_top_k`, `top_n` or an engine's own.
/// - `logits`: row m is the draft's output after entry m of the level; any type and layout that `logit_batch` takes.
/// - `sampling`: one a request.
/// - `out`: the same tokens as the sampler draws on the host, whatever the team size; entries beyond the count are
///   `none`, and a tree may keep them as children that are none (see `verify_trees`).
///
/// Throws `invalid_input`, with nothing launched, for extents that do not fit. In the launch nothing throws: a row that
/// is no distribution gets no children.
template <sampler Sampler, template <class> class Group = team_group, class Space, class Memory, class View>
void draft_children(Space const& space, level_batch<Memory> const& level, View const& logits,
                    Kokkos::View<sampling_params const*, Memory> const& sampling, draw_batch<Memory> const& draws,
                    children_batch<Memory> const& out, launch_shape shape = {}, Sampler sampler = {}) {
    std::size_t const entries = level.nodes.extent(0);
    std::size_t const requests = draws.seeds.extent(0);
    detail::check_vocabulary(logits, "logits");
    detail::check_extent(level.requests, "level.requests", entries, "there is one request an entry");
    if (level.wanted.extent(0) > 0)
        detail::check_extent(level.wanted, "level.wanted", entries, "there is one number an entry, or none");
    detail::check_extent(logits, "logits", entries, "there is one row an entry");
    detail::check_extent(sampling, "sampling", requests, "there are sampling parameters for every request");
    detail::check_extent(draws.positions, "draws.positions", requests, "there is one position a request");
    if (draws.requests.extent(0) > 0)
        detail::check_extent(draws.requests, "draws.requests", requests, "there is one number a request, or none");
    detail::check_extent(out.tokens, "out.tokens", entries, "there is one row an entry");
    detail::check_extent(out.counts, "out.counts", entries, "there is one count an entry");
    if constexpr (counts_certain<typename Sampler::law>)
        detail::check_extent(out.certain, "out.certain", entries, "this law says how many children are certain");
    auto const policy = team_policy<Group>(space, entries, shape);
    if (entries == 0) return;
    Kokkos::parallel_for(
        "multidraft::draft_children", policy,
        detail::draft_kernel<Group, Space, Sampler, Memory, View>{sampler, level, logits, sampling, draws, out});
}

}  // namespace MULTIDRAFT_NAMESPACE::kokkos
