// Draws from a law that is given by its conditionals.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "multidraft/base/span.hpp"
#include "multidraft/draft/sampler.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/distribution.hpp"

namespace MULTIDRAFT_NAMESPACE::draft {

/// Draws n tokens, x_k from `Law::conditional(g, q, x_1 .. x_{k-1})` (see `gives_conditionals`; [RSD] (1)). Fewer if
/// such a row has no mass. Verified by `verify::recursive_rejection<Law>`.
///
/// Cost: a pass over each row in addition to making it. The sums of q are not used.
template <draft_law Law>
struct by_conditionals {
    using law = Law;

    template <group G, distribution Q, class Sums, draw_source Source>
    MULTIDRAFT_HD drawn_children operator()(G const& g, Q const& q, Sums const& /*sums*/, Source& source,
                                            draw_site site, span<token_id> out) const {
        static_assert(gives_conditionals<Law, G, Q>,
                      "multidraft: draft::by_conditionals<Law> needs a static Law::conditional(g, q, drawn)");
        for (std::size_t k = 0; k < out.size(); ++k) {
            auto const row = Law::conditional(g, q, span<token_id const>(out).first(k));
            auto const sums = g.sum_chunks(row.size(), weight_of{row});
            auto const at = static_cast<index_t>(k);
            if (!can_draw(sums)) return {at};
            index_t const x = source.categorical(g, sums, row.size(), weight_of{row}, {}, site(purpose::draft, at));
            if (x == none) return {at};
            out[k] = x;
        }
        return {static_cast<index_t>(out.size())};
    }
};

}  // namespace MULTIDRAFT_NAMESPACE::draft
