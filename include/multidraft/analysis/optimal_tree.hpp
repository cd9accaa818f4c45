// The static tree with the most expected accepted tokens for given acceptance rates by rank, by dynamic programming.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/tree/topology.hpp"

namespace MULTIDRAFT_NAMESPACE::analysis {

/// By level (0: the children of the root) and rank: the probability that the child of that rank is the accepted one,
/// given that its parent was reached. One level's rates sum to 1 at most.
using rank_rates = std::vector<std::vector<double>>;

/// By level, number of children less one, and rank: the same of one of n children. With siblings the first child is
/// accepted less often than alone, which `rank_rates` cannot say.
using child_rates = std::vector<std::vector<std::vector<double>>>;

/// A shape and its expected number of accepted nodes.
struct optimal_shape {
    topology shape;
    double accepted = 0;  ///< expected number of accepted nodes; block efficiency is one more
};

namespace detail {

inline void check_rates(rank_rates const& rates) {
    for (std::size_t level = 0; level < rates.size(); ++level) {
        double sum = 0;
        for (double const rate : rates[level]) {
            if (!(rate >= 0 && rate <= 1))
                refuse("rates", static_cast<std::int64_t>(level), rate, "an acceptance rate lies in [0, 1]");
            sum += rate;
        }
        if (sum > 1 + 1e-9)
            refuse("rates", static_cast<std::int64_t>(level), sum, "at most one child of a node is accepted");
    }
}
inline void check_rates(child_rates const& rates) {
    for (std::size_t level = 0; level < rates.size(); ++level) {
        check_rates(rates[level]);
        double before = 0;
        for (std::size_t n = 0; n < rates[level].size(); ++n) {
            auto const& of_number = rates[level][n];
            if (of_number.size() != n + 1)
                refuse("rates", static_cast<std::int64_t>(level), of_number.size(),
                       "there are rates of one child, of two, and so on");
            double const sum = std::accumulate(of_number.begin(), of_number.end(), 0.0);
            if (sum < before - 1e-9)
                refuse("rates", static_cast<std::int64_t>(level), sum, "more children are not accepted less often");
            before = sum;
        }
    }
}

/// By how much each further child makes an acceptance likelier, no more than the one before: `rate(n)` is that of n
/// children.
template <class Rate>
std::vector<double> increases(std::int32_t children, Rate const& rate) {
    std::vector<double> result;
    double before = 0;
    double last = 1;
    for (std::int32_t n = 1; n <= children; ++n) {
        last = std::clamp(rate(n) - before, 0.0, last);
        before += last;
        result.push_back(last);
    }
    return result;
}

}  // namespace detail

/// The expected number of accepted nodes of a tree: the sum over nodes of the product of the rates on their path.
/// Nodes deeper or of a higher rank than `rates` covers count 0. O(N).
[[nodiscard]] inline double expected_accepted(topology const& shape, rank_rates const& rates) {
    detail::check_rates(rates);
    std::vector<double> reached(static_cast<std::size_t>(shape.size()), 0.0);
    reached[0] = 1;
    double sum = 0;
    for (node_id v = 1; v < shape.size(); ++v) {
        node_id const up = shape.parent(v);
        auto const level = static_cast<std::size_t>(shape.depth(up));
        auto const rank = static_cast<std::size_t>(v - shape.first_child(up));
        if (level >= rates.size() || rank >= rates[level].size()) continue;
        reached[static_cast<std::size_t>(v)] = reached[static_cast<std::size_t>(up)] * rates[level][rank];
        sum += reached[static_cast<std::size_t>(v)];
    }
    return sum;
}

namespace detail {

/// The best lists of trees for every budget of nodes, by level and rank: best[l][k][m] is the expected number accepted
/// by ranks k, k+1, .. of level l with m nodes. taken[l][k][m] is how many of these nodes are in the tree of rank k; 0:
/// no further tree, -1: as with m - 1.
struct best_trees {
    std::vector<std::vector<std::vector<double>>> best;
    std::vector<std::vector<std::vector<std::int32_t>>> taken;

    best_trees(rank_rates const& rates, std::size_t budget) : best(rates.size() + 1), taken(rates.size() + 1) {
        std::size_t const levels = rates.size();
        best[levels].assign(1, std::vector<double>(budget + 1, 0.0));
        taken[levels].assign(1, std::vector<std::int32_t>(budget + 1, 0));
        for (std::size_t l = levels; l-- > 0;) {
            std::size_t const ranks = rates[l].size();
            best[l].assign(ranks + 1, std::vector<double>(budget + 1, 0.0));
            taken[l].assign(ranks + 1, std::vector<std::int32_t>(budget + 1, 0));
            for (std::size_t k = ranks; k-- > 0;)
                for (std::size_t m = 1; m <= budget; ++m) choose(l, k, m, rates[l][k]);
        }
    }

    /// The parents of the best tree, in level order.
    [[nodiscard]] std::vector<node_id> parents(rank_rates const& rates, std::size_t budget) const {
        struct task {
            node_id node;
            std::size_t level;
            std::size_t nodes;
        };
        std::vector<task> tasks{{0, 0, budget}};
        std::vector<node_id> result{none};
        for (std::size_t i = 0; i < tasks.size(); ++i) {
            task const now = tasks[i];
            std::size_t left = now.nodes;
            for (std::size_t k = 0; now.level < rates.size() && k < rates[now.level].size(); ++k) {
                while (left > 0 && taken[now.level][k][left] < 0) --left;
                if (left == 0) break;
                auto const j = static_cast<std::size_t>(taken[now.level][k][left]);
                tasks.push_back({static_cast<node_id>(result.size()), now.level + 1, j - 1});
                result.push_back(now.node);
                left -= j;
            }
        }
        return result;
    }

private:
    void choose(std::size_t l, std::size_t k, std::size_t m, double rate) {
        // A further node is taken only if it gains something.
        best[l][k][m] = best[l][k][m - 1];
        taken[l][k][m] = -1;
        for (std::size_t j = 1; j <= m; ++j) {
            double const value = rate * (1 + best[l + 1][0][j - 1]) + best[l][k + 1][m - j];
            if (!(value > best[l][k][m])) continue;
            best[l][k][m] = value;
            taken[l][k][m] = static_cast<std::int32_t>(j);
        }
    }
};

}  // namespace detail

/// The trees with the most expected accepted nodes for every number of nodes up to `nodes`, by one table.
class optimal_trees {
public:
    /// Makes the table, in O(levels ranks nodes^2); a tree of it then takes O(its nodes).
    ///
    /// Throws `invalid_input` for rates outside [0, 1], levels whose rates sum to more than 1, nodes outside [0, 4096].
    optimal_trees(rank_rates rates, std::int32_t nodes)
        : rates_(std::move(rates)), trees_(checked(rates_, nodes), static_cast<std::size_t>(nodes)), nodes_(nodes) {}

    /// The tree of at most `nodes` nodes below the root. Throws `invalid_input` beyond the table.
    [[nodiscard]] topology operator()(std::int32_t nodes) const {
        return topology::from_parents(trees_.parents(rates_, budget(nodes)));
    }
    /// Its expected number of accepted nodes. Throws the same.
    [[nodiscard]] double accepted(std::int32_t nodes) const { return trees_.best[0][0][budget(nodes)]; }

private:
    static rank_rates const& checked(rank_rates const& rates, std::int32_t nodes) {
        detail::check_rates(rates);
        if (nodes < 0 || nodes > 4096) refuse("nodes", nodes, "the budget is 0 to 4096 nodes");
        return rates;
    }
    [[nodiscard]] std::size_t budget(std::int32_t nodes) const {
        if (nodes < 0 || nodes > nodes_)
            refuse("nodes", nodes, "the table has trees of 0 to " + std::to_string(nodes_));
        return static_cast<std::size_t>(nodes);
    }

    rank_rates rates_;
    detail::best_trees trees_;
    std::int32_t nodes_;
};

/// The tree of at most `nodes` nodes below the root with the most expected accepted nodes ([Sequoia] 3.1, with rates
/// that may differ by level). Its depth is at most the number of levels of `rates`, its width at a node the number of
/// ranks there.
///
/// O(levels ranks nodes^2). Among equally good trees it returns the one with fewer nodes. Throws as `optimal_trees`.
[[nodiscard]] inline optimal_shape optimal_tree(rank_rates const& rates, std::int32_t nodes) {
    optimal_trees const trees(rates, nodes);
    return {trees(nodes), trees.accepted(nodes)};
}

/// The same with one list of rates for all of `depth` levels.
[[nodiscard]] inline optimal_shape optimal_tree(std::span<double const> rates, std::int32_t nodes, std::int32_t depth) {
    if (depth < 0 || depth > 4096) refuse("depth", depth, "a tree is 0 to 4096 levels deep");
    return optimal_tree(rank_rates(static_cast<std::size_t>(depth), std::vector<double>(rates.begin(), rates.end())),
                        nodes);
}

}  // namespace MULTIDRAFT_NAMESPACE::analysis
