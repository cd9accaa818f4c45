// Draws without replacement in one pass: the largest log q + Gumbel noise.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>

#include "multidraft/base/exp_log.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/draft/sampler.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/distribution.hpp"

namespace MULTIDRAFT_NAMESPACE::draft {

/// Draws n different tokens with the law of `sequential`, in the same order, as the n largest log q(i) - log E_i with
/// E_i independent exponentials (Gumbel-top-k; [RSD] 3.2, Kool et al. 2019).
///
/// One pass with one random word and two logarithms a token: the form for a machine with many lanes; on a CPU thread
/// `sequential` draws the same law with less work. The noise has an address for each token (index = token), so it takes
/// an `addressed_source`. It is continuous and therefore tested by chi-squared, not by enumeration. It has 32 bits: see
/// `race_noise` for the effect on tokens of less than 2^-30.
struct gumbel_top_k {
    using law = multidraft::law::sequential;

    template <group G, distribution Q, class Sums>
    MULTIDRAFT_HD drawn_children operator()(G const& g, Q const& q, Sums const& /*sums*/,
                                            addressed_source const& source, draw_site site, span<token_id> out) const {
        g.top_k(
            q.size(),
            [q, site, uniforms = source.uniforms()](index_t i) MULTIDRAFT_INLINE_LAMBDA {
                auto const noise =
                    static_cast<probability_of<Q>>(exponential_variate(uniforms.word(site(purpose::gumbel, i))));
                return fp::log(q.weight(i)) - fp::log(noise);  // minus infinity where q has no mass
            },
            out);
        index_t drawn = 0;  // tokens of weight 0 have key minus infinity and are not drawn
        for (token_id const x : out) drawn += x != none && q.weight(x) > 0 ? 1 : 0;
        return {drawn};
    }
};

}  // namespace MULTIDRAFT_NAMESPACE::draft
