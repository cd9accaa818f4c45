// How the nodes of a tree are best divided among its branches, where the children of a node take from one another.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/draft/chances_by_row.hpp"
#include "multidraft/tree/topology.hpp"

namespace MULTIDRAFT_NAMESPACE::draft {

/// The trees of the most expected accepted tokens for every number of nodes, where the rows of nodes depend on their
/// depth alone. Draws that are all alike share the chance of any, so that a further sibling takes from the branches of
/// the others: a tree grown one node after the other does not find that two branches are worth more than one. Here the
/// nodes below a node of each depth are divided among 1, 2, .. children, from the last depth up, as in a knapsack.
/// Memory is kept from one call to the next.
class node_allocation {
public:
    /// Divides up to `nodes` nodes, 65,535 at most, among trees whose nodes have `children` or fewer. Throws
    /// `invalid_input` for more. O(depths x children^2 x nodes^2).
    void compute(chances_by_row const& chance, index_t children, node_id nodes) {
        constexpr node_id most = std::numeric_limits<std::uint16_t>::max();
        if (nodes < 0 || nodes > most) refuse("nodes", nodes, "0 to 65,535 nodes are divided");
        nodes_ = static_cast<std::size_t>(nodes);
        auto const depths = static_cast<std::size_t>(chance.depth());
        children_ = std::min(static_cast<std::size_t>(children), nodes_);
        value_.assign((depths + 1) * row(), 0);
        used_.assign(depths * row(), 0);
        count_.assign(depths * row(), 0);
        share_.assign(depths * children_ * children_ * row(), 0);
        for (std::size_t d = depths; d-- > 0;) {
            for (std::size_t c = 1; c <= children_; ++c) divide(chance, d, c);
            for (std::size_t n = 1; n <= nodes_; ++n) {
                std::size_t const here = d * row() + n;
                if (value_[here] > value_[here - 1]) continue;
                value_[here] = value_[here - 1];
                used_[here] = used_[here - 1];
                count_[here] = count_[here - 1];
            }
        }
    }

    /// The expected accepted tokens below a root with n nodes.
    [[nodiscard]] double tokens(node_id n) const noexcept { return value_[static_cast<std::size_t>(n)]; }

    /// The same below a node of a depth.
    [[nodiscard]] index_t children(std::int32_t depth, node_id n) const noexcept { return count_[at(depth, n)]; }
    /// Nodes below child k of a node of that depth with n nodes below.
    [[nodiscard]] node_id below_child(std::int32_t depth, node_id n, index_t k) const noexcept {
        auto const d = static_cast<std::size_t>(depth);
        std::size_t const c = count_[at(depth, n)];
        std::size_t left = used_[at(depth, n)] - c;
        // The shares were found from the last child down.
        for (std::size_t j = c; j-- > static_cast<std::size_t>(k) + 1;) left -= share_[share_at(d, c, j) + left];
        return static_cast<node_id>(share_[share_at(d, c, static_cast<std::size_t>(k)) + left]);
    }

private:
    [[nodiscard]] std::size_t row() const noexcept { return nodes_ + 1; }
    [[nodiscard]] std::size_t at(std::int32_t depth, node_id n) const noexcept {
        return static_cast<std::size_t>(depth) * row() + static_cast<std::size_t>(n);
    }
    [[nodiscard]] std::size_t share_at(std::size_t d, std::size_t c, std::size_t k) const noexcept {
        return ((d * children_ + c - 1) * children_ + k) * row();
    }

    /// Divides the nodes below a node of depth d with c children among these.
    void divide(chances_by_row const& chance, std::size_t d, std::size_t c) {
        std::size_t const room = nodes_ - c;
        double const* const below = value_.data() + (d + 1) * row();
        sums_.assign(room + 1, 0);
        auto const depth = static_cast<std::int32_t>(d);
        auto const count = static_cast<index_t>(c);
        for (std::size_t k = 0; k < c; ++k) {
            double const weight = chance(depth, count, static_cast<index_t>(k));
            best_ = sums_;
            given_.assign(room + 1, 0);
            for (std::size_t j = 1; j <= room; ++j) give(j, weight * below[j], room);
            sums_.swap(best_);
            std::transform(given_.begin(), given_.end(),
                           share_.begin() + static_cast<std::ptrdiff_t>(share_at(d, c, k)),
                           [](double j) { return static_cast<std::uint16_t>(j); });
        }
        double const any = chance.any(depth, count);
        for (std::size_t m = 0; m <= room; ++m) {
            std::size_t const here = d * row() + c + m;
            if (!(any + sums_[m] > value_[here])) continue;
            value_[here] = any + sums_[m];
            used_[here] = static_cast<std::uint16_t>(c + m);
            count_[here] = static_cast<std::uint16_t>(c);
        }
    }

    /// Gives a child j nodes, which add `gain`, wherever that is better than fewer. By vectors: one type throughout.
    void give(std::size_t j, double gain, std::size_t room) noexcept {
        double const* const without = sums_.data();
        double* const best = best_.data() + j;
        double* const given = given_.data() + j;
        auto const nodes = static_cast<double>(j);
        for (std::size_t m = 0; m + j <= room; ++m) {
            double const sum = without[m] + gain;
            bool const better = sum > best[m];
            best[m] = better ? sum : best[m];
            given[m] = better ? nodes : given[m];
        }
    }

    std::size_t nodes_ = 0, children_ = 0;
    std::vector<double> value_;                ///< by depth and number of nodes
    std::vector<double> sums_, best_, given_;  ///< by the nodes below some children, and below one more
    std::vector<std::uint16_t> used_;          ///< of those nodes
    std::vector<std::uint16_t> count_;         ///< of children
    std::vector<std::uint16_t> share_;  ///< by depth, number of children, child, and nodes below it and those before it
};

}  // namespace MULTIDRAFT_NAMESPACE::draft
