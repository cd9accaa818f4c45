// Two tokens of which one is the most likely: the law of SpecHub.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "multidraft/base/error.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/draft/sampler.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/distribution.hpp"

namespace MULTIDRAFT_NAMESPACE::draft {

/// One token from q; if it is the most likely one (ties: the lowest), the other from the rest, else the other is the
/// most likely one ([SpecHub]; [OptimalMDSD] 5.3). The most likely one is written first, and is certain. One child
/// alone is a draw from q.
///
/// More than two children are an `invalid_input` on the host; on devices two are drawn.
struct top_paired {
    using law = multidraft::law::top_paired;

    /// Throws `invalid_input` for more children than it draws; `index` is of the `argument`.
    static void check(char const* argument, std::int64_t index, std::int64_t children) {
        if (children > 2) refuse(argument, index, children, "the law of SpecHub, law::top_paired, has two candidates");
    }

    template <group G, distribution Q, class Sums, draw_source Source>
    MULTIDRAFT_HD drawn_children operator()(G const& g, Q const& q, Sums sums, Source& source, draw_site site,
                                            span<token_id> out) const {
#if !MULTIDRAFT_ON_DEVICE
        if constexpr (G::throws) check("children", site.node, static_cast<std::int64_t>(out.size()));
#endif
        weight_of const w{q};
        if (out.empty() || !can_draw(sums)) return {};
        index_t const first = source.categorical(g, sums, q.size(), w, {}, site(purpose::draft, 0));
        if (first == none) return {};
        out[0] = first;
        if (out.size() == 1) return {1};
        index_t const top = g.argmax(q.size(), w);
        if (first != top) {
            g.barrier();  // every lane has read the draw
            out[0] = top;
            out[1] = first;
            return {2, 1};
        }
        auto const taken = span<token_id const>(out).first(1);
        g.update_chunk(sums, q.size(), w, taken, first);
        if (!can_draw(sums)) return {1};
        index_t const second = source.categorical(g, sums, q.size(), w, taken, site(purpose::draft, 1));
        if (second == none) return {1};
        out[1] = second;
        return {2, 1};
    }
};

}  // namespace MULTIDRAFT_NAMESPACE::draft
