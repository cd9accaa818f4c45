// The most likely tokens with certainty, then independent draws from the rest.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/draft/certain.hpp"
#include "multidraft/draft/sampler.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/distribution.hpp"

namespace MULTIDRAFT_NAMESPACE::draft {

/// The children of `law::stratified`: the most likely tokens with certainty as long as the certainty rule holds
/// (`take_certain`), then independent draws from the others, duplicates kept ([Ranked]).
///
/// `theta`, the rule's threshold, is in [0, 1]: the smaller it is, the more children are certain. The default performed
/// best (docs/research.md). It is not part of the law: the drawn tree carries how many children are certain. Other
/// values are an `invalid_input` on the host.
///
/// Cost: one pass for the top n - 1, one chunk of the row for each certain token, and one for each draw. When the
/// support of q is not larger than n it is taken as a whole, all of it certain except at most one last draw; there may
/// be fewer children than n. At temperature 0 the n most likely tokens are certain (n > 1).
struct stratified {
    using law = multidraft::law::stratified;

    double theta = 0.7;

    /// Throws `invalid_input` for a threshold outside [0, 1].
    void check(char const* /*argument*/, std::int64_t /*index*/, std::int64_t /*children*/) const {
        if (!(theta >= 0 && theta <= 1)) refuse("theta", theta, "the threshold of the certainty rule is in [0, 1]");
    }

    template <group G, distribution Q, class Sums, draw_source Source>
    MULTIDRAFT_HD drawn_children operator()(G const& g, Q const& q, Sums sums, Source& source, draw_site site,
                                            span<token_id> out) const {
#if !MULTIDRAFT_ON_DEVICE
        if constexpr (G::throws) check("children", site.node, static_cast<std::int64_t>(out.size()));
#endif
        weight_of const w{q};
        auto const n = static_cast<index_t>(out.size());
        index_t const certain = take_certain(g, q, sums, out, theta);
        if (!can_draw(sums)) return {certain, certain};
        auto const taken = span<token_id const>(out).first(static_cast<std::size_t>(certain));
        for (index_t k = certain; k < n; ++k) {
            index_t const x = source.categorical(g, sums, q.size(), w, taken, site(purpose::draft, k));
            if (x == none) return {k, certain};
            out[k] = x;
        }
        return {n, certain};
    }
};

}  // namespace MULTIDRAFT_NAMESPACE::draft
