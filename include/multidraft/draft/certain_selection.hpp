// Which children a sampler takes with certainty, as a function of the row.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/draft/sampler.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/random/draw_site.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/rows/probabilities.hpp"

namespace MULTIDRAFT_NAMESPACE::draft {

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
