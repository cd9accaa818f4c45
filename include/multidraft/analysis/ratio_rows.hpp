// A target row and a draft row in the order of q/p, sorted once for all rates computed from them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "multidraft/analysis/input.hpp"
#include "multidraft/base/config.hpp"

namespace MULTIDRAFT_NAMESPACE::analysis {

/// Target p and draft q over one vocabulary, checked, divided by their sums, and sorted by q/p, largest first; equal
/// ratios by token, tokens without draft mass last.
///
/// Sorting dominates the cost of most rates; functions that take this in place of two rows share it. O(V log V). Throws
/// `invalid_input` for rows of different sizes, entries that are negative or not finite, and sums more than 1e-4 away
/// from 1.
class ratio_rows {
public:
    /// The rows p and q, checked and sorted as above.
    ratio_rows(std::span<double const> p, std::span<double const> q) {
        auto const rows = detail::checked(p, q);
        struct entry {
            double ratio;
            std::uint32_t token;
        };
        std::vector<entry> entries(rows.p.size());
        for (std::size_t i = 0; i < entries.size(); ++i) {
            // Finite where there is draft mass, so that tokens without it come last.
            double const ratio = rows.q[i] > 0 ? std::min(rows.p[i] / rows.q[i], std::numeric_limits<double>::max())
                                               : std::numeric_limits<double>::infinity();
            entries[i] = {ratio, static_cast<std::uint32_t>(i)};
            support_ += rows.q[i] > 0 ? 1 : 0;
        }
        std::sort(entries.begin(), entries.end(), [](entry const& a, entry const& b) {
            return a.ratio < b.ratio || (a.ratio == b.ratio && a.token < b.token);
        });
        p_.reserve(entries.size());
        q_.reserve(entries.size());
        token_.reserve(entries.size());
        for (entry const& e : entries) {
            p_.push_back(rows.p[e.token]);
            q_.push_back(rows.q[e.token]);
            token_.push_back(e.token);
        }
    }

    [[nodiscard]] std::size_t size() const noexcept { return p_.size(); }
    /// The target's probabilities in the order of q/p.
    [[nodiscard]] std::span<double const> p() const noexcept { return p_; }
    /// The draft's probabilities in that order.
    [[nodiscard]] std::span<double const> q() const noexcept { return q_; }
    /// The tokens in that order.
    [[nodiscard]] std::span<std::uint32_t const> token() const noexcept { return token_; }
    /// The number of tokens with draft mass.
    [[nodiscard]] index_t support() const noexcept { return support_; }

    /// The indices of the `count` tokens of largest q, ties to the lower token, without those of no mass.
    [[nodiscard]] std::vector<std::size_t> top(index_t count) const {
        auto const wanted = static_cast<std::size_t>(std::min(count, support_));
        std::vector<std::size_t> result(wanted);
        if (wanted == 0) return result;
        auto const before = [this](std::size_t a, std::size_t b) {
            return q_[a] > q_[b] || (q_[a] == q_[b] && token_[a] < token_[b]);
        };
        // The best so far as a heap with the worst on top: most tokens need only this one comparison.
        std::size_t filled = 0;
        for (std::size_t i = 0; i < q_.size(); ++i) {
            if (filled < wanted) {
                if (!(q_[i] > 0)) continue;
                result[filled++] = i;
                std::push_heap(result.begin(), result.begin() + static_cast<std::ptrdiff_t>(filled), before);
            } else if (before(i, result.front())) {
                std::pop_heap(result.begin(), result.end(), before);
                result.back() = i;
                std::push_heap(result.begin(), result.end(), before);
            }
        }
        std::sort(result.begin(), result.end(), before);
        return result;
    }

private:
    std::vector<double> p_;
    std::vector<double> q_;
    std::vector<std::uint32_t> token_;
    index_t support_ = 0;
};

}  // namespace MULTIDRAFT_NAMESPACE::analysis
