// The tree whose shape is chosen from all rows of a step before anything is drawn, best first.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <queue>
#include <span>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/draft/child_shares.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/tree/tree_builder.hpp"

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

/// What a tree may cost.
struct shape_budget {
    node_id nodes = 16;    ///< the root not counted, in [0, 2^16]
    index_t children = 4;  ///< of a node at most, >= 1
    double least = 0;      ///< what a node adds to the accepted tokens at least, in [0, 1]: the price of a row

    /// Throws `invalid_input` naming the field that is out of its range.
    void validate() const {
        if (nodes < 0 || nodes > 1 << 16) refuse("nodes", nodes, "a tree has 0 to 2^16 nodes besides its root");
        if (children < 1) refuse("children", children, "a node has one child or more");
        if (!(least >= 0 && least <= 1)) refuse("least", least, "what a node adds lies in [0, 1]");
    }
};

namespace detail {

/// A tree that takes more children where they add most.
template <class Sampler>
class best_shape {
public:
    best_shape(Sampler const& sampler, std::span<depth_outlook const> rows, shape_budget const& budget)
        : rows_(rows), budget_(budget) {
        for (depth_outlook const& row : rows) {
            chances_.push_back({});
            for (index_t n = 1; n <= budget.children; ++n) chances_.push_back(chances_of(sampler, row, n));
        }
        push(offer_of(0));
    }

    /// Adds nodes until the budget ends.
    topology grow() {
        while (!offers_.empty() && tree_.size() <= budget_.nodes) {
            offer const best = offers_.top();
            offers_.pop();
            // What children add falls where others took a share since; and they must fit.
            offer const now = offer_of(best.node);
            if (now.gain < best.gain || now.children != best.children)
                push(now);
            else
                add(best.node, best.children);
        }
        tree_.arrange();
        return topology::from_parents(tree_.nodes().parents);
    }

private:
    struct offer {
        double gain;  ///< what these children add to the accepted tokens, for each of them
        node_id node;
        index_t children = 1;
        /// Of equal gains the node added first is the better one.
        friend bool operator<(offer const& a, offer const& b) noexcept {
            return a.gain < b.gain || (!(b.gain < a.gain) && a.node > b.node);
        }
    };
    struct node {
        std::vector<node_id> children;
        double below = 0;  ///< expected accepted tokens below it, once it is reached
    };

    static std::size_t at(node_id v) noexcept { return static_cast<std::size_t>(v); }

    /// The chance of child k of n at a depth.
    [[nodiscard]] double chance(std::int32_t depth, index_t n, index_t k) const noexcept {
        auto const row = static_cast<std::size_t>(depth);
        child_chances const& of = chances_[row * (static_cast<std::size_t>(budget_.children) + 1) + at(n)];
        return k < of.shares.certain ? of.factor * rows_[row].likeliest[at(k)] : of.of_draw();
    }
    /// The accepted tokens below a node of n children, of which the last may be new.
    [[nodiscard]] double below(node_id v, index_t n) const noexcept {
        node const& here = nodes_[at(v)];
        double sum = 0;
        for (index_t k = 0; k < n; ++k)
            sum += chance(tree_.added().depths[at(v)], n, k) *
                   (1 + (at(k) < here.children.size() ? nodes_[at(here.children[at(k)])].below : 0));
        return sum;
    }
    /// The children of a node, after those it has, that add most, each; several where one alone adds little, as the
    /// first certain child beside a draw. A gain of 0 if there can be none.
    [[nodiscard]] offer offer_of(node_id v) const noexcept {
        tree_nodes const& all = tree_.added();
        offer best{0, v};
        index_t const n = tree_.child_count(v);
        if (at(all.depths[at(v)]) >= rows_.size()) return best;
        double reach = 1;
        for (node_id u = v; u > 0; u = all.parents[at(u)])
            reach *= chance(all.depths[at(u)] - 1, tree_.child_count(all.parents[at(u)]), all.ranks[at(u)]);
        for (index_t more = 1; n + more <= budget_.children && more <= budget_.nodes + 1 - tree_.size(); ++more) {
            double const each = reach * (below(v, n + more) - nodes_[at(v)].below) / more;
            if (each > best.gain) best = {each, v, more};
        }
        return best;
    }
    void push(offer const& one) {
        if (one.gain > 0 && !(one.gain < budget_.least)) offers_.push(one);
    }
    /// Adds children of a node.
    void add(node_id parent, index_t count) {
        node_id const first = tree_.size();
        for (index_t k = 0; k < count; ++k) nodes_[at(parent)].children.push_back(tree_.add(parent, 0));
        nodes_.resize(at(tree_.size()));
        for (node_id u = parent; u != none; u = tree_.added().parents[at(u)])
            nodes_[at(u)].below = below(u, tree_.child_count(u));
        push(offer_of(parent));
        for (node_id v = first; v < tree_.size(); ++v) push(offer_of(v));
    }

    std::span<depth_outlook const> rows_;
    shape_budget const& budget_;
    std::vector<child_chances> chances_;  ///< of 0, 1, .. children, depth after depth
    tree_builder tree_;
    std::vector<node> nodes_ = std::vector<node>(1);
    std::priority_queue<offer> offers_;
};

}  // namespace detail

/// The tree of the most expected accepted tokens, grown best first, for rows that are all known before the first draw:
/// those of a block drafter, one for each depth. Children are added where each adds most to the tree's
/// expected accepted tokens, by the chances of children beside their siblings (`chances_of`), until `budget.nodes` are
/// there or the next would add less than `budget.least`. Ties go to the node added first.
///
/// The shape is a function of rows and of earlier steps, of nothing drawn (`shape_depends_on::nothing`): every verifier
/// is lossless for it. With `top_n` it is the best-first tree of [DDTree], whose children are all certain. At most as
/// deep as there are rows. O(nodes (log nodes + (depth + children) x children)).
///
/// Throws `invalid_input` for a budget out of its range.
template <class Sampler>
[[nodiscard]] topology shape_of_rows(Sampler const& sampler, std::span<depth_outlook const> rows,
                                     shape_budget const& budget) {
    budget.validate();
    return detail::best_shape<Sampler>(sampler, rows, budget).grow();
}

}  // namespace MULTIDRAFT_NAMESPACE::draft
