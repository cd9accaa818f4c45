// The children of one node of a level by any group: the work of host threads, CUDA and Kokkos for each entry.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/batch/level_batch.hpp"
#include "multidraft/batch/low_rank_batch.hpp"
#include "multidraft/batch/prepared_batch.hpp"
#include "multidraft/batch/request_batch.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/draft/sampler.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/random/draw_site.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/tree/absent_tokens.hpp"

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
        if constexpr (is_addressed_by_text<Sampler>) position += level.depths[e];
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
