// Drawing the children of a level of a batch, wherever a call runs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/batch/arguments.hpp"
#include "multidraft/batch/detail/check_batch.hpp"
#include "multidraft/batch/detail/refusals.hpp"
#include "multidraft/batch/execution_policy.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/batch/level_batch.hpp"
#include "multidraft/batch/prepared_batch.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/batch/validation.hpp"
#include "multidraft/draft/sampler.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/tree/absent_tokens.hpp"
#include "multidraft/tree/topology.hpp"

namespace MULTIDRAFT_NAMESPACE::detail {

/// The sampler, told which of the target's tokens a smaller vocabulary has if its noise depends on that.
template <sampler Sampler>
[[nodiscard]] MULTIDRAFT_HD Sampler over_vocabulary(Sampler sampler, [[maybe_unused]] token_id const* token_of) {
    if constexpr (requires { sampler.token_of; })
        if (sampler.token_of == nullptr) sampler.token_of = token_of;
    return sampler;
}

/// Draws the children of entry e of a level: the row's normaliser and the draws. For a row that is not a distribution
/// none are drawn.
template <sampler Sampler, group G, logit_row_batch Rows>
MULTIDRAFT_HD void draft_entry(G const& g, Sampler const& sampler, std::int32_t e, level_batch const& level,
                               Rows const& rows, request_batch const& requests, children_batch const& out) {
    std::int32_t const b = level.requests[e];
    std::int64_t const begin = out.first == nullptr ? e * out.stride : out.first[e];
    std::int64_t wanted = level.wanted == nullptr ? out.stride : level.wanted[e];
    if (out.first == nullptr && wanted > out.stride) wanted = out.stride;
    if (wanted < 0) wanted = 0;
    std::int64_t const room = out.first == nullptr ? out.stride : wanted;
    span<token_id> const children(out.tokens + begin, static_cast<std::size_t>(wanted));
    std::int64_t const at = out.node_index == nullptr ? e : out.node_index[e];
    drawn_children drawn;
    if (wanted > 0 || out.states != nullptr) {
        auto q = rows.with_sums(g, e, b);
        addressed_source source{requests.uniforms(b)};
        std::int32_t position = requests.position(b);
        if constexpr (Sampler::law::traits.addressed_by_text) position += level.depths[e];
        if (wanted > 0 && q.sums.total > 0)
            drawn = over_vocabulary(sampler, out.token_of)(g, q.row, std::move(q.sums), source,
                                                           draw_site{position, level.nodes[e]}, children);
        if constexpr (std::is_same_v<real_of<typename Rows::element>, float> && !changed_when_read<Rows>)
            if (g.leader() && out.states != nullptr) out.states[at] = state_of(q.row);
        if (out.probabilities != nullptr) {
            g.barrier();
            for (index_t k = 0; k < drawn.count; ++k) {
                auto const chance = static_cast<float>(q.row(children[k]));
                if (g.leader()) out.probabilities[begin + k] = chance;
            }
        }
    }
    // Up to here any lane may write the children, including those that could not be drawn.
    g.barrier();
    if (g.leader()) {
        for (std::int64_t k = drawn.count; k < room; ++k) out.tokens[begin + k] = k < wanted ? support_ended : padding;
        if (out.probabilities != nullptr)
            for (std::int64_t k = drawn.count; k < room; ++k) out.probabilities[begin + k] = 0;
        if (out.token_of != nullptr)
            for (index_t k = 0; k < drawn.count; ++k) children[k] = out.token_of[children[k]];
        if (out.counts != nullptr) out.counts[e] = drawn.count;
        if (out.certain != nullptr) out.certain[at] = drawn.certain;
    }
}

}  // namespace MULTIDRAFT_NAMESPACE::detail

namespace MULTIDRAFT_NAMESPACE {

namespace detail {

/// Whether no ids tell two requests apart, and they have one seed and position.
[[nodiscard]] inline bool have_same_draws(request_batch const& requests, std::int32_t b, std::int32_t c) {
    return requests.ids == nullptr && requests.slot(b) >= 0 && requests.slot(c) >= 0 &&
           requests.seed(c) == requests.seed(b) && requests.position(c) == requests.position(b);
}

/// Whether the entries of a request follow one another, and no two requests have the same draws: then an entry is
/// compared with those of its request alone. O(entries requests), O(entries) with ids.
[[nodiscard]] inline bool requests_are_apart(level_batch const& level, request_batch const& requests) {
    for (std::int32_t e = 0; e < level.entries; ++e) {
        std::int32_t const b = level.requests[e];
        if (b < 0) return false;
        if (e == 0 || b == level.requests[e - 1]) continue;
        if (b < level.requests[e - 1]) return false;
        for (std::int32_t other = 0; requests.ids == nullptr && other < e; ++other)
            if ((other == 0 || level.requests[other] != level.requests[other - 1]) &&
                have_same_draws(requests, b, level.requests[other]))
                return false;
    }
    return true;
}

/// The last earlier entry that would get the draws of entry e: the same node of its request, or of another one with its
/// seed and position where there are no ids, which would say that it is meant. `none` if there is none. `apart`:
/// `requests_are_apart`. O(e), or of the request's entries where they are.
[[nodiscard]] inline std::int32_t entry_with_same_draws(level_batch const& level, request_batch const& requests,
                                                        std::int32_t e, bool apart) {
    std::int32_t const b = level.requests[e];
    for (std::int32_t other = e; other-- > 0;) {
        std::int32_t const c = level.requests[other];
        if (apart && c != b) break;
        if (level.nodes[other] == level.nodes[e] && (c == b || have_same_draws(requests, b, c))) return other;
    }
    return none;
}

/// Refuses entry e of a level if its children cannot be drawn. `apart`: see `requests_are_apart`.
template <class Law, logit_row_batch Rows>
void check_entry(level_batch const& level, Rows const& rows, request_batch const& requests, children_batch const& out,
                 std::int32_t e, bool apart) {
    std::int32_t const b = level.requests[e];
    std::int64_t const entry = level.first_entry + e;
    if (b < 0) refuse("level.requests", entry, b, "a request has a number from 0 on");
    node_id const node = level.nodes[e];
    if (node < 0 || node >= max_nodes) refuse("level.nodes", entry, node, "a node lies in [0, 2^24)");
    if constexpr (!std::is_same_v<Law, law::deterministic>)
        if (std::int32_t const other = entry_with_same_draws(level, requests, e, apart); other != none)
            refuse("level.nodes", entry, node,
                   "entry " + std::to_string(level.first_entry + other) +
                       (level.requests[other] == b ? " is the same node: both would get the same draws"
                                                   : ", of request " + std::to_string(level.requests[other]) +
                                                         ", has this node, seed and position, and no ids tell the two "
                                                         "requests apart: both would get the same draws"));
    if (level.depths != nullptr && level.depths[e] < 0)
        refuse("level.depths", entry, level.depths[e], "a node lies 0 levels below the root or more");
    if (level.wanted != nullptr && level.wanted[e] < 0)
        refuse("level.wanted", entry, level.wanted[e], "a node is to have 0 children or more");
    if (level.wanted != nullptr && out.first == nullptr && level.wanted[e] > out.stride)
        refuse("level.wanted", entry, level.wanted[e], "there are as many places for an entry as the stride says");
    if (out.first != nullptr && out.first[e] < 0)
        refuse("out.first", entry, out.first[e], "tokens begin at 0 or later");
    if (out.node_index != nullptr && out.node_index[e] < 0)
        refuse("out.node_index", entry, out.node_index[e], "nodes are counted from 0");
    if (requests.slot(b) < 0) refuse("slot_of", b, requests.slot(b), "a slot is not negative");
    if (requests.position(b) < 0) refuse("positions", b, requests.position(b), "a position is not negative");
    if (level.depths != nullptr && level.depths[e] > std::numeric_limits<std::int32_t>::max() - requests.position(b))
        refuse("level.depths", entry, level.depths[e], "positions are below 2^31");
    if constexpr (has_slots<Rows>)
        if (rows.slot_of != nullptr && rows.slot_of[b] < 0)
            refuse("draft.slot_of", b, rows.slot_of[b], "a slot is not negative");
    batch_fault const f = check_sampling(rows.sampling_of(b), batch_argument::draft_temperature);
    refuse_reported({f.what, b, b, none, f.value});
    if (rows.row(e) < 0) refuse("draft.row_of", entry, rows.row(e), "the row of an entry is not negative");
    batch_fault const of_bias = check_adjustments(rows, batch_argument::draft, e, entry);
    refuse_reported({of_bias.what, b, of_bias.index, of_bias.token, of_bias.value});
}

/// Refuses a level with an entry whose children cannot be drawn.
template <sampler Sampler, logit_row_batch Rows>
void check_entries_of_level([[maybe_unused]] Sampler const& sampler, level_batch const& level, Rows const& rows,
                            request_batch const& requests, children_batch const& out) {
    bool const apart = requests_are_apart(level, requests);
    for (std::int32_t e = 0; e < level.entries; ++e) {
        check_entry<typename Sampler::law>(level, rows, requests, out, e, apart);
        if constexpr (requires { sampler.check("", 0, 0); })
            sampler.check(level.wanted == nullptr ? "out.stride" : "level.wanted", level.first_entry + e,
                          level.wanted == nullptr ? out.stride : level.wanted[e]);
    }
}

/// Refuses entries whose rows have a few candidates that do not rise, on a host.
template <class Rows>
void refuse_candidates([[maybe_unused]] level_batch const& level, [[maybe_unused]] Rows const& rows) {
    if constexpr (has_candidates<Rows>)
        for (std::int32_t e = 0; e < level.entries; ++e)
            refuse_bad_candidates("draft", rows, e, [&] { return ", entry " + std::to_string(level.first_entry + e); });
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
///   smaller than the number of children, or the row is not a distribution, the remaining children are `support_ended`,
///   in the second case all of them, which `batch_step` reports;
///   `verify_batch` accepts trees with such children, with the law of the draws: `drawn_by<Sampler::law>(trees)`.
/// - `scratch`: `draft_workspace_size(policy, entries)` bytes, or none, which excludes grid-wide launches.
///
/// A sampler of a law with certain children writes their number to `out.certain`. Nothing is allocated. On a host
/// throws `invalid_input`, before anything is written, for invalid entries, entries that would have the same draws
/// (a node that stands twice, or in two requests with one seed and position and no ids; unless nothing is drawn,
/// `law::deterministic`), for more children than the sampler draws, sampling parameters and arrays. The search for such
/// entries takes O(entries x requests), and O(entries^2) where those of a request do not follow one another. In a
/// launch the contents of arrays are not checked; for the rest Kokkos throws, and a stream returns
/// `cudaErrorInvalidValue` (`cuda::last_refusal`).
template <execution_policy P, sampler Sampler, logit_row_batch Rows>
auto draft_batch(P const& policy, Sampler const& sampler, level_batch const& level, draft_rows<Rows> const& rows,
                 request_batch const& requests, children_batch const& out, workspace const& scratch = {}) {
    return detail::checked(
        policy,
        [&] {
            detail::refuse_bad_level<Sampler>(level, rows.rows, requests, out);
            if constexpr (host_policy<P>) detail::check_entries_of_level(sampler, level, rows.rows, requests, out);
            if constexpr (host_policy<P>) detail::refuse_candidates(level, rows.rows);
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
