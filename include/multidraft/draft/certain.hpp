// The certainty rule: which of n children are the most likely tokens, selected without a draw.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/fma.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/draft/sampler.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/rows/probabilities.hpp"

namespace MULTIDRAFT_NAMESPACE::draft {

/// Writes the certain children of a node to `out`, most likely first, and returns how many there are. They are removed
/// from `sums`, the chunk sums of the row's weights.
///
/// "Certainty selection" of survey sampling: take the tokens of q in falling order. While k > 1 children are left and k
/// q(top) / (mass left) >= theta, the top remaining token is a child with certainty. The other children are to be drawn
/// from the remaining tokens. theta is in [0, 1]; with 0 all children but one are certain.
///
/// Where nothing is left to draw from (`least_drawable`), the other children are certain too, in the order of the row.
/// So at temperature 0 the children are the most likely tokens (`order_of`), as at any temperature close to it. One
/// pass for the top n - 1, a second one where the support ends, and a chunk of the row for each token.
template <group G, distribution Q, class Sums>
[[nodiscard]] MULTIDRAFT_HD index_t take_certain(G const& g, Q const& q, Sums& sums, span<token_id> out, double theta) {
    weight_of const w{q};
    order_of const order{q};
    auto const n = static_cast<index_t>(out.size());
    if (!can_draw(sums)) return 0;
    index_t const most = ordered_tokens(q, n);
    index_t certain = 0;
    index_t listed = 0;
    for (;;) {
        bool const rest = can_draw(sums);
        if (rest && certain + 1 >= n) break;
        if (certain == listed) {
            // If one child is drawn, at most n - 1 are certain.
            index_t const wanted = rest ? n - 1 : n;
            if (listed == (wanted < most ? wanted : most)) break;
            listed = wanted < most ? wanted : most;
            g.barrier();  // every lane has read what is overwritten next
            g.top_k(q.size(), order, out.first(static_cast<std::size_t>(listed)));
            g.barrier();
        }
        token_id const x = out[certain];
        if (x == none || !(order(x) > minus_infinity<probability_of<Q>>)) break;
        if (rest) {
            auto const top = static_cast<double>(q.weight(x));
            if (!(top > 0) ||
                !(fp::mul(static_cast<double>(n - certain), top) >= fp::mul(theta, static_cast<double>(sums.total))))
                break;
        }
        ++certain;
        if (rest) g.update_chunk(sums, q.size(), w, out.first(static_cast<std::size_t>(certain)), x);
    }
    g.barrier();  // every lane has read the tokens before draws overwrite them
    return certain;
}

/// The children that a sampler takes from a row with certainty, and the number of draws that follow, of n children in
/// all.
struct certain_selection {
    std::vector<token_id> tokens;  ///< most likely first
    index_t draws = 0;

    /// `q`: probabilities. Costs one call of the sampler.
    template <class Sampler>
    certain_selection(Sampler const& sampler, std::vector<double> const& q, index_t n)
        : tokens(static_cast<std::size_t>(n), none) {
        host_group const g;
        probabilities<double> const row(q.data(), static_cast<index_t>(q.size()));
        auto sums = g.sum_chunks(row.size(), weight_of{row});
        addressed_source source;  // the certain tokens do not depend on the seed
        drawn_children const drawn = sampler(g, row, sums, source, draw_site{}, span<token_id>(tokens));
        tokens.resize(static_cast<std::size_t>(drawn.certain));
        draws = drawn.count - drawn.certain;
    }
};

}  // namespace MULTIDRAFT_NAMESPACE::draft
