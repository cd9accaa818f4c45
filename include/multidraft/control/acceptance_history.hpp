// Estimates of acceptance rates from past steps, by level, number of siblings and rank.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "multidraft/analysis/optimal_tree.hpp"
#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/decode/step_outcome.hpp"
#include "multidraft/tree/topology.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// Counts of accepted children that decay exponentially: after `memory` steps a step has weight 1/e.
///
/// Estimates the rate at which one of the n children of a reached node is accepted, by level. Where counts are few the
/// estimate is drawn towards that of the same n at other levels, then towards a law of all n. The law is -log(1 - rate)
/// = x n^0.45 (docs/research.md has measured exponents); x maximises the likelihood of all counts together with
/// `no_counts` nodes of one child that were accepted at the rate `prior`. Pairs follow the law within a few hundredths,
/// and levels differ as little, so it takes tens of nodes to depart from either (bench/results/controller). Levels and
/// numbers of children beyond the largest count as the largest.
class acceptance_history {
public:
    static constexpr std::int32_t levels = 8;
    static constexpr std::int32_t most_children = 8;

    /// Throws `invalid_input` for a memory below 1 or without end and a prior outside [1e-6, 1 - 1e-6].
    explicit acceptance_history(double memory = 100, double prior = 0.6) : kept_(1 - 1 / memory), prior_(prior) {
        validate(memory, prior);
        for (std::size_t n = 0; n < power_.size(); ++n) power_[n] = std::pow(static_cast<double>(n + 1), exponent);
        estimate();
    }

    /// Throws what the constructor throws.
    static void validate(double memory, double prior = 0.6) {
        if (!(memory >= 1) || !std::isfinite(memory))
            refuse("memory", memory, "counts are kept for 1 step or more, and not for ever");
        if (!(prior >= 1e-6 && prior <= 1 - 1e-6))
            refuse("prior", prior, "a rate that may be learnt is in [1e-6, 1 - 1e-6]");
    }

    /// Counts a step: each node of the accepted path that has children in the shape, under the number in the shape.
    /// (There are fewer where the draft's support ends; choices of a shape need the rate by the number requested.)
    /// Throws `invalid_input` for a path that the shape does not have.
    void learn(topology const& shape, step_outcome const& outcome) {
        check(shape, outcome);
        fade(kept_);
        for_each_tried(shape, outcome, [&](std::int32_t level, node_id like, std::int32_t rank) {
            count(level, shape.child_count(like), rank, 1);
        });
        estimate();
    }

    /// Counts the nodes that `learn` counts by what was expected of them: `chances` has for each node of the shape the
    /// probability at which it was expected to be accepted once its parent was. The ratio of the rates of two
    /// histories, one of what came about and one of what was expected, corrects the expectation. Throws `invalid_input`
    /// as `learn` does, and as `check_chances` does.
    void learn_expected(topology const& shape, step_outcome const& outcome, std::span<double const> chances) {
        check_chances(shape, chances);
        check(shape, outcome);
        fade(kept_);
        for_each_tried(shape, outcome, [&](std::int32_t level, node_id like, std::int32_t) {
            std::int32_t const n = shape.child_count(like);
            count(level, n, none, 1);
            for (std::int32_t k = 0; k < n; ++k)
                count_accepted(level, n, k, chances[static_cast<std::size_t>(shape.first_child(like) + k)]);
        });
        estimate();
    }

    /// Throws `invalid_input` for another number of chances than the shape has nodes, for one outside [0, 1], and where
    /// those of the children of a node sum to more than 1.
    static void check_chances(topology const& shape, std::span<double const> chances) {
        if (chances.size() != static_cast<std::size_t>(shape.size()))
            refuse("chances.size", chances.size(), "every node of the shape has a chance");
        constexpr double rounding = 1e-6;  // of sums over a row
        for (std::size_t v = 0; v < chances.size(); ++v)
            if (!(chances[v] >= 0 && chances[v] <= 1 + rounding))
                refuse("chances", static_cast<std::int64_t>(v), chances[v], "a probability is in [0, 1]");
        for (node_id v = 0; v < shape.size(); ++v) {
            double sum = 0;
            for (std::int32_t k = 0; k < shape.child_count(v); ++k)
                sum += chances[static_cast<std::size_t>(shape.first_child(v) + k)];
            if (sum > 1 + rounding)
                refuse("chances", shape.first_child(v), sum,
                       "one child at most is accepted: the chances of all sum to 1");
        }
    }
    /// Throws `invalid_input` for an accepted path that the tree, or the shape that it was drawn by, does not have.
    static void check(topology const& shape, step_outcome const& outcome) {
        node_id node = 0;
        node_id like = 0;
        for (std::size_t d = 0; d < outcome.path.size(); ++d) {
            node_id const v = outcome.path[d];
            bool const is_child = v > 0 && v < outcome.tree.size() && outcome.tree.parents[v] == node;
            std::int32_t const rank = is_child ? v - outcome.tree.children(node).first : none;
            if (rank < 0 || rank >= shape.child_count(like))
                refuse("outcome.path", static_cast<std::int64_t>(d), v,
                       "the tree that was drafted has the shape that was chosen");
            node = v;
            like = shape.first_child(like) + rank;
        }
    }

    /// Decays the counts as that many steps would. Throws `invalid_input` for a negative number.
    void pass(double steps) {
        if (!(steps >= 0)) refuse("steps", steps, "a number of steps is not negative");
        fade(std::pow(kept_, steps));
        estimate();
    }

    /// Begins with the counts of another history, such as that of all requests, scaled to `nodes` nodes where they are
    /// more. Memory and prior stay. Throws `invalid_input` for a negative number.
    void begin_as(acceptance_history const& other, double nodes) {
        if (!(nodes >= 0)) refuse("nodes", nodes, "a number of nodes is not negative");
        cells_ = other.cells_;
        tried_ = other.tried_;
        accepted_ = other.accepted_;
        double whole = 0;
        for (double const x : tried_) whole += x;
        if (whole > nodes) fade(nodes / whole);
        estimate();
    }

    /// The estimated rate at which one of the n children of a reached node of that level is accepted.
    [[nodiscard]] double rate(std::int32_t level, std::int32_t n) const noexcept {
        return rates_[row(level)][column(n)];
    }
    /// The share of that rate due to the child of a rank; the shares of n children sum to 1.
    [[nodiscard]] double share(std::int32_t n, std::int32_t rank) const noexcept {
        std::size_t const here = column(n);
        if (n <= most_children) return shares_[here][column(rank + 1)];
        // Beyond the table the remaining ranks have a common share.
        if (rank + 1 < most_children) return shares_[here][column(rank + 1)];
        return shares_[here][column(most_children)] / (n - most_children + 1);
    }
    /// The increase of the rate by one more child, by level and rank, as if children were tried one after another: the
    /// input of `analysis::optimal_tree` and `share_budget`. The rates of a level are nonincreasing. Throws
    /// `invalid_input` for a negative depth.
    [[nodiscard]] analysis::rank_rates rank_rates(std::int32_t depth, std::int32_t children) const {
        if (depth < 0) refuse("depth", depth, "a number of levels is not negative");
        analysis::rank_rates result;
        for (std::int32_t level = 0; level < depth; ++level)
            result.push_back(analysis::detail::increases(children, [&](std::int32_t n) { return rate(level, n); }));
        return result;
    }
    /// The rate at which each of 1 to `children` children is the accepted one, by level: the input of `share_budget`.
    /// Throws `invalid_input` for a negative depth.
    [[nodiscard]] analysis::child_rates child_rates(std::int32_t depth, std::int32_t children) const {
        if (depth < 0) refuse("depth", depth, "a number of levels is not negative");
        analysis::child_rates result(static_cast<std::size_t>(depth));
        for (std::int32_t level = 0; level < depth; ++level) {
            double before = 0;
            for (std::int32_t n = 1; n <= children; ++n) {
                // More children are not accepted less often.
                before = std::max(before, rate(level, n));
                auto& of_number = result[static_cast<std::size_t>(level)].emplace_back();
                for (std::int32_t k = 0; k < n; ++k) of_number.push_back(before * share(n, k));
            }
        }
        return result;
    }
    /// The decayed count of nodes with n children.
    [[nodiscard]] double tried(std::int32_t n) const noexcept { return tried_[column(n)]; }

private:
    template <class T>
    using by_number = std::array<T, static_cast<std::size_t>(most_children)>;

    struct cell {
        double tried = 0;
        double accepted = 0;
    };

    static constexpr double other_levels = 60;   ///< weight of the other levels' estimate, in nodes
    static constexpr double other_numbers = 40;  ///< weight of the law of all numbers of children, in nodes
    static constexpr double no_counts = 8;       ///< weight of the prior, in nodes
    static constexpr double prior_of_ranks = 6;  ///< weight of the prior of shares, in accepted nodes
    static constexpr double exponent = 0.45;

    static std::size_t row(std::int32_t level) noexcept {
        return static_cast<std::size_t>(std::clamp(level, 0, levels - 1));
    }
    static std::size_t column(std::int32_t n) noexcept {
        return static_cast<std::size_t>(std::clamp(n, 1, most_children) - 1);
    }
    /// Calls `counts(level, node of the shape, rank of its accepted child or none)` for each node of the accepted path
    /// that has children in the shape.
    template <class Counts>
    static void for_each_tried(topology const& shape, step_outcome const& outcome, Counts const& counts) {
        node_id node = 0;
        node_id like = 0;
        for (std::size_t d = 0; d <= outcome.path.size(); ++d) {
            bool const accepted = d < outcome.path.size();
            std::int32_t const rank = accepted ? outcome.path[d] - outcome.tree.children(node).first : none;
            if (shape.child_count(like) > 0) counts(static_cast<std::int32_t>(d), like, rank);
            if (!accepted) break;
            node = outcome.path[d];
            like = shape.first_child(like) + rank;
        }
    }
    void count(std::int32_t level, std::int32_t n, std::int32_t rank, double weight) {
        cells_[row(level)][column(n)].tried += weight;
        tried_[column(n)] += weight;
        if (rank >= 0) count_accepted(level, n, rank, weight);
    }
    void count_accepted(std::int32_t level, std::int32_t n, std::int32_t rank, double weight) {
        cells_[row(level)][column(n)].accepted += weight;
        accepted_[column(n)][column(rank + 1)] += weight;
    }

    void fade(double kept) {
        for (auto& level : cells_)
            for (cell& c : level) {
                c.tried *= kept;
                c.accepted *= kept;
            }
        for (double& x : tried_) x *= kept;
        for (auto& ranks : accepted_)
            for (double& x : ranks) x *= kept;
    }

    /// The x of the law that maximises the likelihood, by Newton's method: the derivative of its logarithm decreases in
    /// x and is convex, so that from the second step on x increases to the zero.
    [[nodiscard]] double likeliest(by_number<double> const& accepted) const {
        double x = -std::log1p(-prior_);
        for (int i = 0; i < 40; ++i) {
            double slope = 0;
            double curve = 0;
            auto const add = [&](double power, double yes, double no) {
                double const odds = 1 / std::expm1(x * power);
                slope += power * (yes * odds - no);
                curve += power * power * yes * odds * (1 + odds);
            };
            add(1, no_counts * prior_, no_counts * (1 - prior_));
            for (std::size_t n = 0; n < accepted.size(); ++n)
                if (tried_[n] > 0) add(power_[n], accepted[n], tried_[n] - accepted[n]);
            double const next = std::clamp(x + slope / curve, x / 4, 4 * x);
            if (std::abs(next - x) <= 1e-13 * x) return next;
            x = next;
        }
        return x;
    }

    /// The tables of rates and shares, from the counts. O(levels most_children + most_children^2), and some hundred
    /// exponentials.
    void estimate() {
        by_number<double> accepted{};
        for (std::size_t n = 0; n < accepted.size(); ++n)
            for (double const x : accepted_[n]) accepted[n] += x;
        double const one = likeliest(accepted);
        for (std::size_t n = 0; n < accepted.size(); ++n) {
            double const law = -std::expm1(-one * power_[n]);
            double const here = (accepted[n] + other_numbers * law) / (tried_[n] + other_numbers);
            for (std::size_t level = 0; level < cells_.size(); ++level) {
                cell const& c = cells_[level][n];
                rates_[level][n] = (c.accepted + other_levels * here) / (c.tried + other_levels);
            }
            // A priori each rank is half as likely as the one before.
            double whole = 0;
            double part = 0.5 * prior_of_ranks;
            for (std::size_t k = 0; k <= n; ++k, part /= 2) whole += shares_[n][k] = accepted_[n][k] + part;
            for (std::size_t k = 0; k <= n; ++k) shares_[n][k] /= whole;
        }
    }

    double kept_;
    double prior_;
    by_number<double> power_{};  ///< n^0.45
    std::array<by_number<cell>, static_cast<std::size_t>(levels)> cells_{};
    by_number<double> tried_{};                ///< of all levels
    by_number<by_number<double>> accepted_{};  ///< over all levels, by rank
    std::array<by_number<double>, static_cast<std::size_t>(levels)> rates_{};
    by_number<by_number<double>> shares_{};
};

}  // namespace MULTIDRAFT_NAMESPACE
