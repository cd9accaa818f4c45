// Estimates of acceptance rates from past steps, by the draft's row at a node and by the probability of a drawn token.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <span>

#include "multidraft/core/config.hpp"
#include "multidraft/draft/child_shares.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// Counts of accepted children that decay exponentially, by classes of rows: by the largest probability, in steps of a
/// factor of 2 in its odds. A class with few counts is drawn towards the prior.
///
/// Children of `draft::stratified` are certain, the top tokens that are always proposed, or drawn from the others
/// (docs/ranked.md). They are counted apart: certain children, draws where there is none, and draws besides certain
/// ones. Draws are also counted by the kind of their token, its probability under the draft.
class acceptance_by_row {
public:
    /// `prior`: how often a single draw is accepted before anything is counted, in (0, 1].
    explicit acceptance_by_row(double prior) : prior_(prior) {}

    /// The class of a row by its largest probability.
    [[nodiscard]] static std::size_t class_of(double largest) noexcept { return place(largest, edges); }
    /// The class of a drawn token by its probability.
    [[nodiscard]] static std::size_t kind_of(double probability) noexcept { return place(probability, token_edges); }

    /// The rates of a row's class.
    [[nodiscard]] draft::child_rates rates(std::size_t row) const noexcept {
        counts const& c = rows_[row];
        return {(prior_weight + c.certain.accepted) / (prior_weight + c.certain.expected),
                at_most_1((prior_weight * prior_ + c.draw.accepted) / (prior_weight + c.draw.expected)),
                at_most_1((prior_weight * prior_ * beside + c.other.accepted) / (prior_weight + c.other.expected))};
    }
    /// How often a drawn token of this kind is accepted, over the mean of all draws.
    [[nodiscard]] double of_token(std::size_t kind) const noexcept {
        return (prior_weight + tokens_[kind].accepted) / (prior_weight + tokens_[kind].expected);
    }

    /// A step has passed: counts decay.
    void fade() noexcept {
        for (counts& c : rows_)
            for (auto* cell : {&c.certain, &c.draw, &c.other}) cell->fade();
        for (pair& cell : tokens_) cell.fade();
    }
    /// Counts a node of the accepted path: its row's class, the chances that its children had, the kinds of the tokens
    /// drawn, and which child was accepted (-1: none), the certain ones first.
    void count(std::size_t row, draft::child_chances const& chances, std::span<std::size_t const> kinds,
               index_t accepted) noexcept {
        counts& c = rows_[row];
        draft::child_rates const before = rates(row);
        draft::child_shares const& shares = chances.shares;
        bool const one_of_the_draws = accepted >= shares.certain;
        if (shares.certain > 0) c.certain.add(1 - shares.left, accepted >= 0 && !one_of_the_draws);
        // The number of single draws that would be accepted as often.
        double const rate = shares.certain > 0 ? before.other : before.draw;
        if (shares.draws > 0 && rate > 0)
            (shares.certain > 0 ? c.other : c.draw).add(chances.draws / rate, one_of_the_draws);
        for (std::size_t k = 0; k < kinds.size(); ++k)
            tokens_[kinds[k]].add(chances.of_draw(),
                                  one_of_the_draws && static_cast<std::size_t>(accepted - shares.certain) == k);
    }

private:
    static constexpr std::array<double, 7> edges{1. / 9, 1. / 5, 1. / 3, 1. / 2, 2. / 3, 4. / 5, 8. / 9};
    static constexpr std::array<double, 4> token_edges{1. / 64, 1. / 16, 1. / 4, 1. / 2};
    static constexpr double prior_weight = 8;  ///< in accepted or expected nodes
    static constexpr double beside = 0.6;      ///< a priori the rate of draws beside certain children, over prior_
    static constexpr double kept_of_a_step = 0.998;  ///< decay of counts in each step, so that rates follow the text

    /// Acceptances, and how many there would be if the rate were 1.
    struct pair {
        double expected = 0;
        double accepted = 0;

        void add(double more, bool was_accepted) noexcept {
            expected += more;
            accepted += was_accepted ? 1 : 0;
        }
        void fade() noexcept {
            expected *= kept_of_a_step;
            accepted *= kept_of_a_step;
        }
    };
    struct counts {
        pair certain;  ///< in units of probability under the draft
        pair draw;     ///< without certain children, in single draws
        pair other;    ///< beside certain children, in single draws
    };

    template <std::size_t N>
    static std::size_t place(double x, std::array<double, N> const& bounds) noexcept {
        std::size_t i = 0;
        while (i < N && x >= bounds[i]) ++i;
        return i;
    }
    static double at_most_1(double rate) noexcept { return rate < 1 ? rate : 1; }

    double prior_;
    std::array<counts, edges.size() + 1> rows_{};
    std::array<pair, token_edges.size() + 1> tokens_{};
};

}  // namespace MULTIDRAFT_NAMESPACE
