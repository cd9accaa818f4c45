// How a node's probability of being reached is divided among its children, and how many children exceed a threshold.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "multidraft/core/config.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/stratified.hpp"

namespace MULTIDRAFT_NAMESPACE::draft {

/// An estimate of each child's probability of being accepted: a certain child has its probability under the draft, the
/// draws have equal parts of the rest. The shares sum to at most 1 and do not depend on what is drawn.
struct child_shares {
    index_t certain = 0;
    index_t draws = 0;
    double left = 1;   ///< the probability outside the certain children
    double least = 1;  ///< the smallest share

    /// The share of each draw.
    [[nodiscard]] double of_draw() const noexcept { return draws > 0 ? left / draws : 0; }
};

/// The shares of n >= 1 independent draws.
[[nodiscard]] inline child_shares shares_of(iid const&, std::span<double const> /*likeliest*/, index_t n) noexcept {
    return {0, n, 1, 1.0 / n};
}

/// The shares of n >= 1 children by the certainty rule. `likeliest` are the largest probabilities of the draft's row,
/// in falling order, n - 1 of them or more, or all there are. O(n).
[[nodiscard]] inline child_shares shares_of(stratified const& sampler, std::span<double const> likeliest,
                                            index_t n) noexcept {
    child_shares shares{0, n, 1, 1};
    while (shares.draws > 1 && static_cast<std::size_t>(shares.certain) < likeliest.size()) {
        double const top = likeliest[static_cast<std::size_t>(shares.certain)];
        if (!(top > 0) || !(shares.draws * top >= sampler.theta * shares.left)) break;
        shares.left = shares.left > top ? shares.left - top : 0;
        shares.least = top < shares.least ? top : shares.least;
        ++shares.certain;
        --shares.draws;
    }
    shares.least = shares.of_draw() < shares.least ? shares.of_draw() : shares.least;
    return shares;
}

/// The largest number of children, up to `most`, each of which has a share of at least `least`; 0 if even a single
/// child has less, that is where `least` exceeds 1. O(most^2).
template <class Sampler>
[[nodiscard]] index_t most_children_of_share(Sampler const& sampler, std::span<double const> likeliest, double least,
                                             index_t most) noexcept {
    for (index_t n = most; n > 0; --n)
        if (shares_of(sampler, likeliest, n).least >= least) return n;
    return 0;
}

}  // namespace MULTIDRAFT_NAMESPACE::draft
