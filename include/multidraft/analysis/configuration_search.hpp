// The best tree configurations for measured acceptance rates and measured costs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "multidraft/analysis/optimal_tree.hpp"
#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/tree/shapes.hpp"
#include "multidraft/tree/topology.hpp"

namespace MULTIDRAFT_NAMESPACE::analysis {

/// Seconds of a forward call by its number of rows: measured at some numbers, linear between them, along the last line
/// beyond them, unless it falls.
class call_cost {
public:
    /// `points` are (rows, seconds), rows increasing. Throws `invalid_input` for none, rows that do not increase or are
    /// below 1, seconds that are negative or not finite.
    explicit call_cost(std::vector<std::pair<std::int32_t, double>> points) : points_(std::move(points)) {
        if (points_.empty()) refuse("points.size", 0, "a cost is measured for one number of rows or more");
        for (std::size_t i = 0; i < points_.size(); ++i) {
            auto const index = static_cast<std::int64_t>(i);
            if (points_[i].first < 1 || (i > 0 && points_[i].first <= points_[i - 1].first))
                refuse("points", index, points_[i].first, "numbers of rows are 1 or more, and increase");
            if (!(points_[i].second >= 0) || !std::isfinite(points_[i].second))
                refuse("points", index, points_[i].second, "seconds are finite and not negative");
        }
    }

    /// Seconds of a call with that many rows: linear between measured points, extrapolated beyond the last, constant
    /// before the first. Where the last two points fall, as measured times may by chance, constant beyond the last,
    /// too.
    [[nodiscard]] double operator()(std::int32_t rows) const {
        if (rows <= points_.front().first || points_.size() == 1) return points_.front().second;
        std::size_t above = 1;
        while (above + 1 < points_.size() && points_[above].first < rows) ++above;
        auto const& a = points_[above - 1];
        auto const& b = points_[above];
        double const t = static_cast<double>(rows - a.first) / static_cast<double>(b.first - a.first);
        if (t > 1 && b.second < a.second) return b.second;
        return a.second + t * (b.second - a.second);
    }

    /// Moves the curve by the fraction `weight` towards a measured call: the points on both sides of `rows`, in
    /// proportion to their proximity. A call that took more than twice the curve's time, or less than half, is clamped
    /// to these limits, since it was probably disturbed. Seconds that are negative or not finite are ignored. Throws
    /// `invalid_input` for a weight outside [0, 1].
    void learn(std::int32_t rows, double seconds, double weight) {
        if (!(weight >= 0 && weight <= 1)) refuse("weight", weight, "a weight is in [0, 1]");
        if (!(seconds >= 0) || !std::isfinite(seconds)) return;
        double const before = (*this)(rows);
        if (before > 0) seconds = std::clamp(seconds, before / 2, 2 * before);
        double const step = weight * (seconds - before);
        std::size_t above = 0;
        while (above + 1 < points_.size() && points_[above].first < rows) ++above;
        auto& b = points_[above];
        if (above == 0 || rows >= b.first) {
            // Beyond the last point the curve moves further than the point, by which it is extrapolated.
            double further = 1;
            if (above > 0 && rows > b.first && b.second >= points_[above - 1].second)
                further = static_cast<double>(rows - points_[above - 1].first) /
                          static_cast<double>(b.first - points_[above - 1].first);
            b.second = std::max(0.0, b.second + step / further);
            return;
        }
        auto& a = points_[above - 1];
        double const t = static_cast<double>(rows - a.first) / static_cast<double>(b.first - a.first);
        a.second = std::max(0.0, a.second + (1 - t) * step);
        b.second = std::max(0.0, b.second + t * step);
    }

    /// Multiplies all times by a factor. Throws `invalid_input` for one that is negative or not finite.
    void scale(double factor) {
        if (!(factor >= 0) || !std::isfinite(factor)) refuse("factor", factor, "a factor is finite and not negative");
        for (auto& point : points_) point.second *= factor;
    }

    /// The measured points, (rows, seconds).
    [[nodiscard]] std::span<std::pair<std::int32_t, double> const> points() const noexcept { return points_; }

private:
    std::vector<std::pair<std::int32_t, double>> points_;
};

/// The cost of a step of the loop.
struct step_costs {
    call_cost target;
    call_cost draft;
    double rest = 0;            ///< seconds of a step apart from the models' calls
    double rest_per_node = 0;   ///< and of every drafted node
    double rest_per_inner = 0;  ///< and of every node with children: drawing them, verifying them

    /// Seconds of one step with that tree: a target call for all nodes, and a draft call for each level that is
    /// expanded, with all nodes of the level. (`share_budget` counts those that have children.)
    [[nodiscard]] double operator()(topology const& shape) const {
        double seconds = target(shape.size()) + rest + rest_per_node * (shape.size() - 1);
        for (node_id v = 0; v < shape.size(); ++v) seconds += shape.child_count(v) > 0 ? rest_per_inner : 0;
        for (std::int32_t d = 0; d < shape.max_depth(); ++d) seconds += draft(shape.level(d).count);
        return seconds;
    }
};

/// Throws `invalid_input` for seconds of `costs.rest..` that are negative or not finite.
inline void validate(step_costs const& costs) {
    for (auto const& [name, value] : {std::pair("costs.rest", costs.rest),
                                      {"costs.rest_per_node", costs.rest_per_node},
                                      {"costs.rest_per_inner", costs.rest_per_inner}})
        if (!(value >= 0 && std::isfinite(value))) refuse(name, value, "seconds are finite and not negative");
}

/// A tree with its efficiency and time.
struct configuration {
    topology shape;
    double block_efficiency = 1;
    double seconds = 0;  ///< a step

    /// Tokens per second by the cost model; 0 if no time was counted.
    [[nodiscard]] double tokens_per_second() const { return seconds > 0 ? block_efficiency / seconds : 0; }
};

/// A tree's efficiency and time for given rates and costs. Throws as `expected_accepted` and `validate`.
[[nodiscard]] inline configuration evaluate(topology shape, rank_rates const& rates, step_costs const& costs) {
    validate(costs);
    double const accepted = expected_accepted(shape, rates);
    double const seconds = costs(shape);
    return {std::move(shape), 1 + accepted, seconds};
}

namespace detail {

/// The fastest k-configuration among those that satisfy `fits(width, nodes)`, given the width of the last level and the
/// number of nodes below the root. Deeper or wider variants of one that does not fit are not tried.
template <class Fits>
[[nodiscard]] configuration fastest_k_configuration(rank_rates const& rates, step_costs const& costs,
                                                    Fits const& fits) {
    check_rates(rates);
    configuration best = evaluate(topology(), rates, costs);
    std::vector<std::int32_t> factors;
    auto const deeper = [&](auto const& self, std::int64_t width, std::int64_t used) -> void {
        std::size_t const level = factors.size();
        if (level == rates.size()) return;
        for (std::int32_t k = 1; k <= static_cast<std::int32_t>(rates[level].size()); ++k) {
            if (!fits(width * k, used + width * k)) break;
            factors.push_back(k);
            configuration candidate = evaluate(branching(factors), rates, costs);
            if (candidate.tokens_per_second() > best.tokens_per_second()) best = std::move(candidate);
            self(self, width * k, used + width * k);
            factors.pop_back();
        }
    };
    deeper(deeper, 1, 0);
    return best;
}

}  // namespace detail

/// The fastest k-configuration k1 x k2 x .. of at most `nodes` nodes below the root ([MCSD] 4.4); the root alone if
/// nothing is faster. Tries all configurations within the depth and ranks of the rates. Throws as `optimal_tree` and as
/// `validate` for the costs.
[[nodiscard]] inline configuration best_k_configuration(rank_rates const& rates, std::int32_t nodes,
                                                        step_costs const& costs) {
    if (nodes < 0 || nodes > 4096) refuse("nodes", nodes, "the budget is 0 to 4096 nodes");
    return detail::fastest_k_configuration(rates, costs,
                                           [=](std::int64_t, std::int64_t used) { return used <= nodes; });
}

/// The same with a limit on the number of candidates K = k1 k2 .., the paths of the tree, whatever their length: the
/// search of [MCSD] 4.3, which uses K and factors up to 32. Throws as `optimal_tree`, as `validate` for the costs, and
/// for K outside [1, 1024].
[[nodiscard]] inline configuration best_k_configuration_of_candidates(rank_rates const& rates, std::int32_t candidates,
                                                                      step_costs const& costs) {
    if (candidates < 1 || candidates > 1024) refuse("candidates", candidates, "a tree has 1 to 1024 paths here");
    return detail::fastest_k_configuration(rates, costs,
                                           [=](std::int64_t width, std::int64_t) { return width <= candidates; });
}

/// The fastest of the optimal trees of every budget up to `nodes` and every depth covered by the rates.
///
/// Trees of equal depth and number of nodes have similar costs, so the one with the most accepted tokens is taken.
/// Throws as `optimal_tree`, as `validate` for the costs, and for a negative number of nodes.
[[nodiscard]] inline configuration best_tree(rank_rates const& rates, std::int32_t nodes, step_costs const& costs) {
    if (nodes < 0) refuse("nodes", nodes, "the budget is 0 nodes or more");
    detail::check_rates(rates);
    configuration best = evaluate(topology(), rates, costs);
    for (std::size_t depth = 1; depth <= rates.size(); ++depth) {
        rank_rates const upper(rates.begin(), rates.begin() + static_cast<std::ptrdiff_t>(depth));
        optimal_trees const trees(upper, nodes);
        for (std::int32_t n = static_cast<std::int32_t>(depth); n <= nodes; ++n) {
            configuration candidate = evaluate(trees(n), rates, costs);
            if (candidate.tokens_per_second() > best.tokens_per_second()) best = std::move(candidate);
        }
    }
    return best;
}

}  // namespace MULTIDRAFT_NAMESPACE::analysis
