// Trees for the requests of a batch: the rows of one target call, allotted by expected gain.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <span>
#include <utility>
#include <vector>

#include "multidraft/analysis/configuration_search.hpp"
#include "multidraft/analysis/optimal_tree.hpp"
#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/tree/links.hpp"
#include "multidraft/tree/topology.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// A tree for each request, and the expected result of the step.
struct shared_budget {
    std::vector<topology> shapes;
    double tokens = 0;   ///< expected, of all requests
    double seconds = 0;  ///< of the step

    /// Tokens per second by the cost model; 0 if no time was counted.
    [[nodiscard]] double tokens_per_second() const { return seconds > 0 ? tokens / seconds : 0; }
};

namespace detail {

/// Grows the trees of all requests one node at a time, the node most likely to be accepted first, to a number of
/// levels. Requests of whose text the draft lacks more than `most_unread` tokens stay roots.
class budget_growth {
public:
    budget_growth(std::span<analysis::rank_rates const> rates, std::span<std::int32_t const> unread, std::size_t levels,
                  std::int32_t most_unread)
        : rates_(rates), unread_(unread), levels_(levels), trees_(rates.size()) {
        for (std::size_t r = 0; r < rates.size(); ++r) {
            trees_[r].push_back(none);
            if (unread.empty() || unread[r] <= most_unread) offer(r, 0, 0, 0, 1.0);
        }
    }

    /// Adds a node and returns its probability of being accepted; 0 if none is left.
    double grow() {
        if (open_.empty()) return 0;
        place const best = open_.top();
        open_.pop();
        auto& tree = trees_[best.request];
        auto const node = static_cast<node_id>(tree.size());
        tree.push_back(best.parent);
        if (best.rank == 0) {
            auto const level = static_cast<std::size_t>(best.level);
            if (level >= read_.size()) read_.resize(level + 1, 0);
            std::int32_t const more = level == 0 && !unread_.empty() ? unread_[best.request] : 1;
            read_[level] =
                more < largest_number<std::int32_t> - read_[level] ? read_[level] + more : largest_number<std::int32_t>;
            ++inner_;
        }
        offer(best.request, best.parent, best.level, best.rank + 1, best.above);
        offer(best.request, node, best.level + 1, 0, best.reach);
        return best.reach;
    }

    /// What the draft reads, by level: nodes with children, and before the first level what it lacks of the texts.
    [[nodiscard]] std::span<std::int32_t const> read() const noexcept { return read_; }
    /// Nodes with children.
    [[nodiscard]] std::int32_t inner() const noexcept { return inner_; }

    /// The trees so far, in level order.
    [[nodiscard]] std::vector<topology> shapes() const {
        std::vector<topology> result;
        for (auto const& tree : trees_)
            result.push_back(topology::from_parents(parents_in_order(tree, level_order(tree))));
        return result;
    }

private:
    struct place {
        double reach;  ///< the probability that the node is accepted
        double above;  ///< of its parent
        std::size_t request;
        node_id parent;
        std::int32_t level;  ///< of the parent
        std::int32_t rank;

        /// Ties to the shallower node, the earlier request, the earlier node. Probabilities that are the same floats
        /// are ties: what a compiler's rounding makes of a double decides nothing.
        friend bool operator<(place const& a, place const& b) {
            auto const of_a = static_cast<float>(a.reach);
            auto const of_b = static_cast<float>(b.reach);
            if (of_a < of_b || of_b < of_a) return of_a < of_b;
            if (a.level != b.level) return a.level > b.level;
            if (a.request != b.request) return a.request > b.request;
            return a.parent != b.parent ? a.parent > b.parent : a.rank > b.rank;
        }
    };

    void offer(std::size_t request, node_id parent, std::int32_t level, std::int32_t rank, double above) {
        auto const& rates = rates_[request];
        if (static_cast<std::size_t>(level) >= std::min(rates.size(), levels_)) return;
        auto const& of_level = rates[static_cast<std::size_t>(level)];
        if (static_cast<std::size_t>(rank) >= of_level.size()) return;
        double const reach = above * of_level[static_cast<std::size_t>(rank)];
        if (reach > 0) open_.push({reach, above, request, parent, level, rank});
    }

    std::span<analysis::rank_rates const> rates_;
    std::span<std::int32_t const> unread_;
    std::size_t levels_;
    std::priority_queue<place> open_;
    std::vector<std::vector<node_id>> trees_;  ///< parents, in the order added
    std::vector<std::int32_t> read_;
    std::int32_t inner_ = 0;
};

/// The largest numbers of unread tokens with which requests may draft: all, and fewer and fewer.
inline std::vector<std::int32_t> limits_of(std::span<std::int32_t const> unread) {
    std::vector<std::int32_t> result(unread.begin(), unread.end());
    std::sort(result.begin(), result.end(), std::greater<>());
    result.erase(std::unique(result.begin(), result.end()), result.end());
    if (result.empty()) result.push_back(1);
    result.resize(std::min<std::size_t>(result.size(), 4));
    return result;
}

}  // namespace detail

/// The trees of a batch's requests that maximise the tokens per second of a step with one target call for all nodes;
/// roots alone if nothing is gained. For each number of levels, which is the number of the draft's calls, nodes are
/// added where the probability of being accepted is largest, over all requests; the best number of nodes is taken, of
/// `nodes` below the roots at most. The same is tried without the requests of the largest numbers in `unread` (three
/// different numbers at most): the others' trees must not pay for a new request's prompt.
///
/// `rates[r]` are those of request r. Within a level they must be nonincreasing in the rank: then no other trees of as
/// many levels and nodes have more expected accepted nodes. The cost of a step counts the rows of all requests in each
/// call. The draft call of a level reads the nodes that have children; the first one reads `unread[r]` tokens of a
/// request that drafts, what the draft lacks of its text with the root included, or 1 each where `unread` is empty.
///
/// O(levels n (log n + levels)) for n nodes, for each of these trials. Throws `invalid_input` for no request, rates
/// outside [0, 1], levels whose rates rise or sum to more than 1, nodes outside [0, 2^16], numbers of unread tokens
/// that are not one for each request, or below 1.
[[nodiscard]] inline shared_budget share_budget(std::span<analysis::rank_rates const> rates, std::int32_t nodes,
                                                analysis::step_costs const& costs,
                                                std::span<std::int32_t const> unread = {}) {
    if (rates.empty()) refuse("rates.size", 0, "a batch has one request or more");
    if (nodes < 0 || nodes > 1 << 16) refuse("nodes", nodes, "the budget is 0 to 2^16 nodes");
    if (!unread.empty() && unread.size() != rates.size())
        refuse("unread.size", unread.size(), "there is one number for each request, or none");
    for (std::size_t r = 0; r < unread.size(); ++r)
        if (unread[r] < 1)
            refuse("unread", static_cast<std::int64_t>(r), unread[r], "the draft reads the root at least");
    std::size_t deepest = 0;
    for (analysis::rank_rates const& one : rates) {
        analysis::detail::check_rates(one);
        for (std::size_t level = 0; level < one.size(); ++level)
            for (std::size_t k = 1; k < one[level].size(); ++k)
                if (one[level][k] > one[level][k - 1])
                    refuse("rates", static_cast<std::int64_t>(level), one[level][k],
                           "the rates of a level do not rise with the rank");
        deepest = std::max(deepest, one.size());
    }
    auto const requests = static_cast<std::int32_t>(rates.size());
    auto const seconds_of = [&](std::int32_t added, std::span<std::int32_t const> read, std::int32_t inner) {
        double seconds =
            costs.target(requests + added) + costs.rest + costs.rest_per_node * added + costs.rest_per_inner * inner;
        for (std::int32_t const rows : read) seconds += costs.draft(rows);
        return seconds;
    };
    shared_budget best{{}, static_cast<double>(requests), seconds_of(0, {}, 0)};
    std::int32_t best_nodes = 0;
    std::size_t best_levels = 0;
    std::int32_t best_unread = largest_number<std::int32_t>;
    for (std::int32_t const most_unread : detail::limits_of(unread))
        for (std::size_t levels = 1; levels <= deepest; ++levels) {
            detail::budget_growth growth(rates, unread, levels, most_unread);
            double tokens = requests;
            for (std::int32_t added = 1; added <= nodes; ++added) {
                double const reach = growth.grow();
                if (!(reach > 0)) break;
                tokens += reach;
                double const seconds = seconds_of(added, growth.read(), growth.inner());
                // tokens / seconds > best.tokens / best.seconds, even if no time was counted. Equal but for rounding is
                // no gain.
                constexpr double gain = 1 + 1e-9;
                if (!(tokens * best.seconds > gain * (best.tokens * seconds))) continue;
                best.tokens = tokens;
                best.seconds = seconds;
                best_nodes = added;
                best_levels = levels;
                best_unread = most_unread;
            }
            if (growth.read().size() < levels) break;  // nothing is that deep
        }
    detail::budget_growth growth(rates, unread, best_levels, best_unread);
    for (std::int32_t k = 0; k < best_nodes; ++k) growth.grow();
    best.shapes = growth.shapes();
    return best;
}

}  // namespace MULTIDRAFT_NAMESPACE
