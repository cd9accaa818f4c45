// The chances of the children of a node by the draft's row of its depth.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/draft/child_shares.hpp"
#include "multidraft/tree/topology.hpp"

namespace MULTIDRAFT_NAMESPACE::draft {

/// The draft's row of one depth, as a shape sees it.
struct depth_outlook {
    /// The largest probabilities of the row, in falling order: as many as a node may have children.
    std::span<double const> likeliest;
    child_rates rates{};  ///< how often children drawn from rows like it are accepted
    /// By how much more often than these rates say n children are accepted, for n = 1, 2, ..; the last for all more.
    std::span<double const> corrections{};
};

/// The chances of n >= 1 children by that row.
template <class Sampler>
[[nodiscard]] child_chances chances_of(Sampler const& sampler, depth_outlook const& row, index_t n) noexcept {
    child_chances const chances = chances_of(sampler, row.likeliest, n, row.rates);
    if (row.corrections.empty()) return chances;
    return chances.scaled_by(row.corrections[std::min(static_cast<std::size_t>(n), row.corrections.size()) - 1]);
}

/// The chances of 1, 2, .. children by each of some rows, for the shapes that are chosen from these.
class chances_by_row {
public:
    /// The rows must outlive it. `children` of a node at most, >= 1. O(rows x children^2).
    template <class Sampler>
    chances_by_row(Sampler const& sampler, std::span<depth_outlook const> rows, index_t children)
        : rows_(rows), children_(children) {
        chances_.reserve(rows.size() * static_cast<std::size_t>(children));
        for (depth_outlook const& row : rows)
            for (index_t n = 1; n <= children; ++n) {
                chances_.push_back(chances_of(sampler, row, n));
                child_shares const& shares = chances_.back().shares;
                siblings_share_ = siblings_share_ || (n > 1 && shares.draws > 0 && !shares.in_turn);
            }
        any_.reserve(chances_.size());
        for (std::int32_t depth = 0; depth < this->depth(); ++depth)
            for (index_t n = 1; n <= children; ++n) {
                double sum = 0;
                for (index_t k = 0; k < n; ++k) sum += (*this)(depth, n, k);
                any_.push_back(sum);
            }
    }

    /// So many rows.
    [[nodiscard]] std::int32_t depth() const noexcept { return static_cast<std::int32_t>(rows_.size()); }
    /// So many children of a node at most.
    [[nodiscard]] index_t children() const noexcept { return children_; }
    /// Whether a further child takes from the chances of the others.
    [[nodiscard]] bool siblings_share() const noexcept { return siblings_share_; }
    /// The chance of child k of n by the row of a depth.
    [[nodiscard]] double operator()(std::int32_t depth, index_t n, index_t k) const noexcept {
        return chances_[at(depth, n)].of_child(rows_[static_cast<std::size_t>(depth)].likeliest, k);
    }
    /// The chance of any of n children.
    [[nodiscard]] double any(std::int32_t depth, index_t n) const noexcept { return any_[at(depth, n)]; }

private:
    [[nodiscard]] std::size_t at(std::int32_t depth, index_t n) const noexcept {
        return static_cast<std::size_t>(depth) * static_cast<std::size_t>(children_) + static_cast<std::size_t>(n - 1);
    }

    std::span<depth_outlook const> rows_;
    index_t children_;
    std::vector<child_chances> chances_;
    std::vector<double> any_;
    bool siblings_share_ = false;
};

}  // namespace MULTIDRAFT_NAMESPACE::draft
