// Trees for the requests of a batch: the rows of one target call, allotted by expected gain.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
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

/// How many nodes the trees of a step have at most, the roots not counted.
inline constexpr std::int32_t most_shared_nodes = 1 << 16;

/// A tree for each request, and the expected result of the step.
struct shared_budget {
    std::vector<topology> shapes;
    double tokens = 0;   ///< expected, of all requests
    double seconds = 0;  ///< of the step

    /// Tokens per second by the cost model; 0 if no time was counted.
    [[nodiscard]] double tokens_per_second() const { return seconds > 0 ? tokens / seconds : 0; }
};

namespace detail {

/// How far trees may grow.
struct growth_limits {
    std::size_t levels = 0;
    std::size_t children = 0;      ///< of a node
    std::int32_t most_unread = 0;  ///< requests of whose text the draft lacks more tokens stay roots
};

/// Grows the trees of all requests one node at a time: the one that is most likely to be accepted first, if each child
/// were accepted as often as the rate of all children has increased by it.
class budget_growth {
public:
    /// `increases`: of the rates, see `increases_of`.
    budget_growth(std::span<analysis::child_rates const> rates, std::span<analysis::rank_rates const> increases,
                  std::span<std::int32_t const> unread)
        : rates_(rates), increases_(increases), unread_(unread) {}

    /// Begins again with the roots, which are the first nodes.
    void start(growth_limits const& limits) {
        limits_ = limits;
        nodes_.clear();
        open_.clear();
        read_.clear();
        inner_ = 0;
        accepted_ = 0;
        for (std::size_t r = 0; r < rates_.size(); ++r) nodes_.push_back({r, nowhere, 0});
        for (std::size_t r = 0; r < rates_.size(); ++r)
            if (unread_.empty() || unread_[r] <= limits.most_unread) offer(r, 0, 1.0);
    }

    /// The probability of being accepted by which the next node is chosen; 0 if none is left.
    [[nodiscard]] double next() const noexcept { return open_.empty() ? 0 : open_.front().reach; }

    /// Adds that node.
    void grow() {
        std::pop_heap(open_.begin(), open_.end());
        place const best = open_.back();
        open_.pop_back();
        node const parent = nodes_[best.parent];
        std::size_t const added = nodes_.size();
        nodes_.push_back({parent.request, best.parent, parent.level + 1});
        if (best.rank == 0) {
            if (parent.level >= read_.size()) read_.resize(parent.level + 1, 0);
            std::int32_t& read = read_[parent.level];
            std::int32_t const more = parent.level == 0 && !unread_.empty() ? unread_[parent.request] : 1;
            read = more < largest_number<std::int32_t> - read ? read + more : largest_number<std::int32_t>;
            ++inner_;
        }
        count(added);
        offer(best.parent, best.rank + 1, best.above);
        offer(added, 0, best.reach);
    }

    /// Expected accepted nodes of all trees, as nodes with as many children are accepted.
    [[nodiscard]] double accepted() const noexcept { return accepted_; }
    /// What the draft reads, by level: nodes with children, and before the first level what it lacks of the texts.
    [[nodiscard]] std::span<std::int32_t const> read() const noexcept { return read_; }
    /// Nodes with children.
    [[nodiscard]] std::int32_t inner() const noexcept { return inner_; }
    /// Expected accepted nodes of a request's tree.
    [[nodiscard]] double accepted(std::size_t request) const noexcept { return nodes_[request].below; }

    /// The trees so far, in level order.
    [[nodiscard]] std::vector<topology> shapes() const {
        std::vector<std::vector<node_id>> trees(rates_.size());
        std::vector<node_id> name;  // of each node in its tree
        for (node const& one : nodes_) {
            auto& tree = trees[one.request];
            name.push_back(static_cast<node_id>(tree.size()));
            tree.push_back(one.parent == nowhere ? none : name[one.parent]);
        }
        std::vector<topology> result;
        for (auto const& tree : trees)
            result.push_back(topology::from_parents(parents_in_order(tree, level_order(tree))));
        return result;
    }

private:
    static constexpr std::size_t nowhere = static_cast<std::size_t>(-1);

    struct place {
        double reach;  ///< the probability that the node is accepted
        double above;  ///< of its parent
        std::size_t parent;
        std::size_t level;  ///< of the parent
        std::size_t request;
        std::size_t rank;

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
    struct node {
        std::size_t request;
        std::size_t parent;
        std::size_t level;
        std::size_t last = nowhere;      ///< child
        std::size_t previous = nowhere;  ///< sibling
        std::size_t children = 0;
        double below = 0;  ///< expected accepted nodes once it is accepted itself
    };

    void offer(std::size_t parent, std::size_t rank, double above) {
        node const& of = nodes_[parent];
        auto const& increases = increases_[of.request];
        if (of.level >= std::min(increases.size(), limits_.levels)) return;
        auto const& of_level = increases[of.level];
        if (rank >= std::min(of_level.size(), limits_.children)) return;
        double const reach = above * of_level[rank];
        if (!(reach > 0)) return;
        open_.push_back({reach, above, parent, of.level, of.request, rank});
        std::push_heap(open_.begin(), open_.end());
    }
    /// What the parent of a new node and all above it are worth by it. O(level children).
    void count(std::size_t added) {
        node& parent = nodes_[nodes_[added].parent];
        nodes_[added].previous = std::exchange(parent.last, added);
        ++parent.children;
        auto const& rates = rates_[parent.request];
        for (std::size_t v = nodes_[added].parent; v != nowhere; v = nodes_[v].parent) {
            node& one = nodes_[v];
            auto const& of_number = rates[one.level][one.children - 1];
            double const before = one.below;
            one.below = 0;
            std::size_t rank = one.children;
            for (std::size_t c = one.last; c != nowhere; c = nodes_[c].previous)
                one.below += of_number[--rank] * (1 + nodes_[c].below);
            if (one.parent == nowhere) accepted_ += one.below - before;
        }
    }

    std::span<analysis::child_rates const> rates_;
    std::span<analysis::rank_rates const> increases_;
    std::span<std::int32_t const> unread_;
    growth_limits limits_;
    std::vector<place> open_;  ///< a heap
    std::vector<node> nodes_;  ///< in the order added
    std::vector<std::int32_t> read_;
    std::int32_t inner_ = 0;
    double accepted_ = 0;
};

/// `analysis::detail::increases` of each level.
inline analysis::rank_rates increases_of(analysis::child_rates const& rates) {
    analysis::rank_rates result;
    for (std::vector<std::vector<double>> const& of_level : rates)
        result.push_back(
            analysis::detail::increases(static_cast<std::int32_t>(of_level.size()), [&](std::int32_t children) {
                auto const& of_number = of_level[static_cast<std::size_t>(children) - 1];
                return std::accumulate(of_number.begin(), of_number.end(), 0.0);
            }));
    return result;
}

/// For each number of rows beyond the first, the least that any further rows add to `seconds` each. The points that
/// give it are the lower convex hull of those to the right. O(numbers).
inline std::vector<double> cheapest_further(std::span<double const> seconds) {
    std::vector<double> result(seconds.size(), 0.0);
    std::vector<std::size_t> hull;
    auto const slope = [&](std::size_t a, std::size_t b) {
        return (seconds[b] - seconds[a]) / static_cast<double>(b - a);
    };
    for (std::size_t a = seconds.size(); a-- > 0;) {
        while (hull.size() > 1 && slope(a, hull.back()) >= slope(a, hull[hull.size() - 2])) hull.pop_back();
        if (!hull.empty()) result[a] = slope(a, hull.back());
        hull.push_back(a);
    }
    return result;
}

/// The seconds of the target's call, by the nodes below the roots: 0 to `nodes`.
inline std::vector<double> target_seconds(analysis::step_costs const& costs, std::int32_t requests,
                                          std::int32_t nodes) {
    std::vector<double> result;
    for (std::int32_t added = 0; added <= nodes; ++added) result.push_back(costs.target(requests + added));
    return result;
}

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

/// What requests may lose by the drafts of others: rows make a step longer, also for a request that drafts little.
struct rate_floor {
    /// Of the rate without drafts that each request keeps, in [0, 1]; 0: whatever is best for all together.
    double least = 0;
    /// For each request the seconds beyond that floor that it has lost so far; negative where it has gained; empty: 0.
    std::span<double const> lost{};
};

/// The trees of a batch's requests that maximise the tokens per second of a step with one target call for all nodes;
/// roots alone if nothing is gained. For each number of levels, which is the number of the draft's calls, and each
/// largest number of children, nodes are added where one more is most likely to be accepted, over all requests; the
/// best number of nodes is taken, of `nodes` below the roots at most. The same is tried without the requests of the
/// largest numbers in `unread` (three different numbers at most): the others' trees must not pay for a new request's
/// prompt.
///
/// `rates[r]` are those of request r: what a tree is expected to gain is exact by them, which tree of as many nodes
/// gains most is not. The cost of a step counts the rows of all requests in each call. The draft call of a level reads
/// the nodes that have children; the first one reads `unread[r]` tokens of a request that drafts, what the draft lacks
/// of its text with the root included, or 1 each where `unread` is empty. With `draft_in_one_call` all levels of the
/// requests that draft are one call of the draft instead, by the number of these requests, whatever is unread
/// (`batched_block_draft`). With a `floor` trees are chosen of which each request expects its tokens in time: `least`
/// times the seconds of the step, and what it has lost, are no more than its tokens take without drafts.
///
/// O(levels children n (log n + levels children)) for n nodes, for each of these trials. Throws `invalid_input` for no
/// request, rates outside [0, 1] or of other numbers of children than 1, 2, .., numbers of children whose rates sum to
/// more than 1 or to less than those of fewer, nodes outside [0, `most_shared_nodes`], seconds that are not finite or
/// negative, numbers of unread tokens that are not one for each request, or below 1, and for a floor that is none.
[[nodiscard]] inline shared_budget share_budget(std::span<analysis::child_rates const> rates, std::int32_t nodes,
                                                analysis::step_costs const& costs,
                                                std::span<std::int32_t const> unread = {},
                                                bool draft_in_one_call = false, rate_floor const& floor = {}) {
    if (rates.empty()) refuse("rates.size", 0, "a batch has one request or more");
    analysis::validate(costs);
    if (nodes < 0 || nodes > most_shared_nodes) refuse("nodes", nodes, "the budget is 0 to 2^16 nodes");
    if (!unread.empty() && unread.size() != rates.size())
        refuse("unread.size", unread.size(), "there is one number for each request, or none");
    for (std::size_t r = 0; r < unread.size(); ++r)
        if (unread[r] < 1)
            refuse("unread", static_cast<std::int64_t>(r), unread[r], "the draft reads the root at least");
    if (!(floor.least >= 0 && floor.least <= 1)) refuse("floor.least", floor.least, "a part of a rate is in [0, 1]");
    if (!floor.lost.empty() && floor.lost.size() != rates.size())
        refuse("floor.lost.size", floor.lost.size(), "there is one number for each request, or none");
    for (std::size_t r = 0; r < floor.lost.size(); ++r)
        if (!std::isfinite(floor.lost[r]))
            refuse("floor.lost", static_cast<std::int64_t>(r), floor.lost[r], "lost seconds are finite");
    if (draft_in_one_call) unread = {};  // requests are counted, not what is unread
    std::size_t deepest = 0;
    std::size_t widest = 0;
    std::vector<analysis::rank_rates> increases;
    for (analysis::child_rates const& one : rates) {
        analysis::detail::check_rates(one);
        for (auto const& of_level : one) widest = std::max(widest, of_level.size());
        deepest = std::max(deepest, one.size());
        increases.push_back(detail::increases_of(one));
    }
    auto const requests = static_cast<std::int32_t>(rates.size());
    std::vector<double> const target = detail::target_seconds(costs, requests, nodes);
    std::vector<double> const further = detail::cheapest_further(target);
    auto const seconds_of = [&](std::size_t added, std::span<std::int32_t const> read, std::int32_t inner) {
        double seconds = target[added] + costs.rest + costs.rest_per_node * static_cast<double>(added) +
                         costs.rest_per_inner * inner;
        // Of one call the first level counts, which has a node of each request that drafts.
        if (draft_in_one_call && read.size() > 1) read = read.first(1);
        for (std::int32_t const rows : read) seconds += costs.draft(rows);
        return seconds;
    };
    shared_budget best{{}, static_cast<double>(requests), seconds_of(0, {}, 0)};
    double const nothing = best.seconds;
    std::size_t best_nodes = 0;
    detail::growth_limits of_best;
    detail::budget_growth growth(rates, increases, unread);
    auto const is_fair = [&](double seconds) {
        for (std::size_t r = 0; r < rates.size() && floor.least > 0; ++r)
            if (floor.least * seconds + (floor.lost.empty() ? 0 : floor.lost[r]) > (1 + growth.accepted(r)) * nothing)
                return false;
        return true;
    };
    for (std::int32_t const most_unread : detail::limits_of(unread))
        for (std::size_t children = 1; children <= widest; ++children)
            for (std::size_t levels = 1; levels <= deepest; ++levels) {
                detail::growth_limits const limits{levels, children, most_unread};
                growth.start(limits);
                for (std::size_t added = 1; added < target.size(); ++added) {
                    // Where the next node gains less than the cheapest further rows must, so do all later ones. Below
                    // a second child nodes gain more than they are chosen by; seldom twice as much.
                    double const next = growth.next();
                    if (!(next > 0) || 2 * next * best.seconds < best.tokens * further[added - 1]) break;
                    growth.grow();
                    double const tokens = requests + growth.accepted();
                    double const seconds = seconds_of(added, growth.read(), growth.inner());
                    // tokens / seconds > best.tokens / best.seconds, even if no time was counted. Equal but for
                    // rounding is no gain.
                    constexpr double gain = 1 + 1e-9;
                    if (!(tokens * best.seconds > gain * (best.tokens * seconds)) || !is_fair(seconds)) continue;
                    best.tokens = tokens;
                    best.seconds = seconds;
                    best_nodes = added;
                    of_best = limits;
                }
                if (growth.read().size() < levels) break;  // nothing is that deep
            }
    growth.start(of_best);
    for (std::size_t k = 0; k < best_nodes; ++k) growth.grow();
    best.shapes = growth.shapes();
    return best;
}

/// The same where a child is accepted as often with siblings after it as without: within a level the rates must be
/// nonincreasing in the rank, and then no other trees of as many levels and nodes have more expected accepted nodes.
/// Throws `invalid_input` for others, too.
[[nodiscard]] inline shared_budget share_budget(std::span<analysis::rank_rates const> rates, std::int32_t nodes,
                                                analysis::step_costs const& costs,
                                                std::span<std::int32_t const> unread = {},
                                                bool draft_in_one_call = false) {
    std::vector<analysis::child_rates> of_numbers;
    for (analysis::rank_rates const& one : rates) {
        analysis::detail::check_rates(one);
        analysis::child_rates& result = of_numbers.emplace_back(one.size());
        for (std::size_t level = 0; level < one.size(); ++level)
            for (std::size_t k = 0; k < one[level].size(); ++k) {
                if (k > 0 && one[level][k] > one[level][k - 1])
                    refuse("rates", static_cast<std::int64_t>(level), one[level][k],
                           "the rates of a level do not rise with the rank");
                result[level].emplace_back(one[level].begin(), one[level].begin() + static_cast<std::ptrdiff_t>(k) + 1);
            }
    }
    return share_budget(std::span<analysis::child_rates const>(of_numbers), nodes, costs, unread, draft_in_one_call);
}

/// Whether some trees may gain: if not, `share_budget` gives roots alone. `each`: at least the rate of n children
/// divided by n, for every request, level and number of children. A tree of m nodes has m `each` accepted ones at most,
/// and its rows take as long as the cheapest ones at least. O(nodes), whatever the number of requests. Throws
/// `invalid_input` for no request, and for nodes outside [0, `most_shared_nodes`].
[[nodiscard]] inline bool trees_may_gain(double each, std::int32_t requests, std::int32_t nodes,
                                         analysis::step_costs const& costs) {
    if (requests < 1) refuse("requests", requests, "a batch has one request or more");
    if (nodes < 0 || nodes > most_shared_nodes) refuse("nodes", nodes, "the budget is 0 to 2^16 nodes");
    auto const target = detail::target_seconds(costs, requests, nodes);
    return each * (target.front() + costs.rest) > requests * detail::cheapest_further(target).front();
}

}  // namespace MULTIDRAFT_NAMESPACE
