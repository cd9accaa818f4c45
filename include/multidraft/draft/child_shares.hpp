// How a node's probability of being reached is divided among its children, and how many children are worth their cost.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

#include "multidraft/base/config.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/draft/top_n.hpp"

namespace MULTIDRAFT_NAMESPACE::draft {

/// How n children divide the probability of the draft's row: a certain child has its own, the draws have the rest. Does
/// not depend on what is drawn.
struct child_shares {
    index_t certain = 0;
    index_t draws = 0;
    double left = 1;  ///< the probability outside the certain children
    /// Draws without replacement are tried one by one, so that the first is accepted most often. Else all are alike.
    bool in_turn = false;

    /// The share of each draw.
    [[nodiscard]] double of_draw() const noexcept { return draws > 0 ? left / draws : 0; }
};

/// The shares of n >= 1 draws, independent or without replacement.
[[nodiscard]] inline child_shares shares_of(iid const&, std::span<double const> /*likeliest*/, index_t n) noexcept {
    return {0, n, 1};
}
[[nodiscard]] inline child_shares shares_of(sequential const&, std::span<double const> /*likeliest*/,
                                            index_t n) noexcept {
    return {0, n, 1, true};
}

/// The shares of the n >= 1 most likely tokens, all certain. O(n).
[[nodiscard]] inline child_shares shares_of(top_n const&, std::span<double const> likeliest, index_t n) noexcept {
    child_shares shares{};
    for (; shares.certain < n && static_cast<std::size_t>(shares.certain) < likeliest.size(); ++shares.certain)
        shares.left -= likeliest[static_cast<std::size_t>(shares.certain)];
    shares.left = std::max(shares.left, 0.0);
    return shares;
}

/// The shares of n >= 1 children by the certainty rule. `likeliest` are the largest probabilities of the draft's row,
/// in falling order, n - 1 of them or more, or all there are. O(n).
[[nodiscard]] inline child_shares shares_of(stratified const& sampler, std::span<double const> likeliest,
                                            index_t n) noexcept {
    child_shares shares{0, n, 1};
    while (shares.draws > 1 && static_cast<std::size_t>(shares.certain) < likeliest.size()) {
        double const top = likeliest[static_cast<std::size_t>(shares.certain)];
        if (!(top > 0) || !(shares.draws * top >= sampler.theta * shares.left)) break;
        shares.left = shares.left > top ? shares.left - top : 0;
        ++shares.certain;
        --shares.draws;
    }
    return shares;
}

/// Rates from which the acceptance of children is estimated.
struct child_rates {
    double certain = 1;  ///< how often a certain child is accepted, over its probability under the draft, >= 0
    double draw = 0.6;   ///< how often a single draw from the whole row is accepted, in [0, 1]
    double other = 0.4;  ///< the same of a draw beside certain children, of the times that none of them is accepted

    /// The rates where a single draw from the row is expected to be accepted with this chance: all in proportion.
    [[nodiscard]] child_rates scaled_to(double chance) const noexcept {
        chance = std::clamp(chance, 0.0, 1.0);
        double const ratio = draw > 0 ? chance / draw : 1;
        return {ratio * certain, chance, std::min(1.0, ratio * other)};
    }
};

/// How often a single draw from the whole row is accepted, by its largest probabilities: the more often, the less is
/// left to chance. Measured with two block drafters at temperatures 0.7 and 1, between 0.14 and 0.55 for a row without
/// a likely token, between 0.76 and 0.9 for one that has no other. O(likeliest).
[[nodiscard]] inline double rate_of_draw(std::span<double const> likeliest) noexcept {
    double same = 0;  // the chance that two draws are the same
    for (double const q : likeliest) same += q * q;
    return 0.45 + 0.45 * std::min(same, 1.0);
}

/// The rates of all children by that. Certain children fall short of their probabilities half as much as a draw does of
/// 1.
[[nodiscard]] inline child_rates rates_of_row(std::span<double const> likeliest) noexcept {
    double const draw = rate_of_draw(likeliest);
    return {(1 + draw) / 2, draw, draw};
}

/// The estimated probabilities that the children of a reached node are accepted. They sum to 1 at most.
struct child_chances {
    child_shares shares;
    double factor = 1;  ///< the chance of a certain child over its probability under the draft
    double draws = 0;   ///< the chance that one of the draws is accepted
    double miss = 0;    ///< the chance that a single draw is not

    /// The chance that none of j draws is accepted, of the times that no certain child is: miss^(j^0.45).
    [[nodiscard]] static double missed(double miss, index_t j) noexcept {
        constexpr double exponent = 0.45;
        return j == 0 ? 1.0 : j == 1 ? miss : std::pow(miss, std::pow(j, exponent));
    }
    /// The chance of draw k.
    [[nodiscard]] double of_draw(index_t k) const noexcept {
        if (shares.draws == 0) return 0;
        if (!shares.in_turn) return draws / shares.draws;
        double const all = 1 - missed(miss, shares.draws);
        return all > 0 ? draws * (missed(miss, k) - missed(miss, k + 1)) / all : 0;
    }
    /// The chance of child k; `likeliest` are the probabilities that these chances were made of.
    [[nodiscard]] double of_child(std::span<double const> likeliest, index_t k) const noexcept {
        return k < shares.certain ? factor * likeliest[static_cast<std::size_t>(k)] : of_draw(k - shares.certain);
    }
    /// The chance that any child is accepted.
    [[nodiscard]] double any() const noexcept { return factor * (1 - shares.left) + draws; }
    /// All chances times `ratio`, or less so that they sum to 1.
    [[nodiscard]] child_chances scaled_by(double ratio) const noexcept {
        if (ratio * any() > 1) ratio = 1 / any();
        return {shares, ratio * factor, ratio * draws, miss};
    }
};

/// The chances of n >= 1 children: those of certain children are in proportion to their probabilities; j draws from the
/// rest, of probability L, have L (1 - (1 - rate)^(j^0.45)) together, the law that pairs of models follow
/// (docs/research.md). `likeliest` as in `shares_of`.
template <class Sampler>
[[nodiscard]] child_chances chances_of(Sampler const& sampler, std::span<double const> likeliest, index_t n,
                                       child_rates const& rates) noexcept {
    child_chances chances{shares_of(sampler, likeliest, n)};
    child_shares const& shares = chances.shares;
    double const taken = 1 - shares.left;
    chances.factor = taken * rates.certain > 1 ? 1 / taken : rates.certain;
    if (shares.draws == 0) return chances;
    chances.miss = 1 - (shares.certain > 0 ? rates.other : rates.draw);
    double const some = 1 - child_chances::missed(chances.miss, shares.draws);
    chances.draws = std::min(shares.left * some, std::max(0.0, 1 - chances.factor * taken));
    return chances;
}

/// The number of children, at most `most`, with the largest gain: `reach` times the chance that any is accepted,
/// `any(n)`, less 1 for each. `reach` is the node's probability of being reached over the cost of a node, in accepted
/// tokens. Ties go to the fewest. O(min(most, reach)) calls.
template <class Any>
[[nodiscard]] index_t best_children(double reach, index_t most, Any const& any) noexcept {
    index_t best = 0;
    double best_gain = 0;
    for (index_t n = 1; n <= most; ++n) {
        if (!(reach * (1 + 1e-9) - n > best_gain)) break;  // not even where one of them is accepted for certain
        double const gain = reach * any(n) - n;
        if (!(gain > best_gain)) continue;
        best_gain = gain;
        best = n;
    }
    return best;
}

/// That by the chances of a row. O(most^2).
template <class Sampler>
[[nodiscard]] index_t best_children(Sampler const& sampler, std::span<double const> likeliest, child_rates const& rates,
                                    double reach, index_t most) noexcept {
    return best_children(reach, most, [&](index_t n) { return chances_of(sampler, likeliest, n, rates).any(); });
}

}  // namespace MULTIDRAFT_NAMESPACE::draft
