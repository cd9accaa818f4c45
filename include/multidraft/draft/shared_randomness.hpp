// Gumbel-max lists: every drafted token is the winner of a race whose noise the verifier shares.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "multidraft/base/config.hpp"
#include "multidraft/base/fma.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/draft/sampler.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/race_noise.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/distribution.hpp"

namespace MULTIDRAFT_NAMESPACE::draft {

/// Draws n tokens, the k-th as argmin S_i^(k) / q_i, S_i^(k) independent exponentials: each has the law q ([Rowan25]).
///
/// The noise belongs to the text, not to the tree: `site.position` is the position of the node itself (the root's plus
/// its level), and `site.node` is not in the address. Hence two nodes of one level draw from the same noise, and the
/// verifier, which runs a race with p over the same noise, often selects a drafted token; see
/// `verify::shared_randomness`. Duplicates are possible and are kept. One pass, with one random block and one logarithm
/// for each token and child; it takes an `addressed_source`.
///
/// The noise of a token is that of its number in the target's vocabulary. Where the draft's vocabulary is smaller
/// (`widened_row`), `token_of` has the target's number for each of the draft's; without it the draft and the target
/// would run their races over different noise, and hardly a token would be accepted. `draft_batch` sets it from
/// `children_batch::token_of`.
struct shared_randomness {
    using law = multidraft::law::shared_randomness;

    token_id const* token_of = nullptr;  ///< may be null: the same numbers

    template <group G, distribution Q, class Sums>
    MULTIDRAFT_HD drawn_children operator()(G const& g, Q const& q, Sums const& /*sums*/,
                                            addressed_source const& source, draw_site site, span<token_id> out) const {
        using real = probability_of<Q>;
        race_noise const noise{source.uniforms(), site.position};
        token_id const* const number = token_of;
        for (std::size_t k = 0; k < out.size(); ++k) {
            auto const list = static_cast<std::int32_t>(k);
            index_t const x = g.argmax(q.size(), [q, noise, list, number](index_t i) MULTIDRAFT_INLINE_LAMBDA {
                return fp::div(q.weight(i), static_cast<real>(noise(list, number == nullptr ? i : number[i])));
            });
            if (x == none || !(q.weight(x) > 0)) return {static_cast<index_t>(k)};
            out[k] = x;
        }
        return {static_cast<index_t>(out.size())};
    }
};

}  // namespace MULTIDRAFT_NAMESPACE::draft
