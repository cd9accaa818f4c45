// The tree whose shape is chosen from all rows of a step before anything is drawn.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/draft/chances_by_row.hpp"
#include "multidraft/draft/node_allocation.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/tree/tree_builder.hpp"

namespace MULTIDRAFT_NAMESPACE::draft {

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

/// Grows the tree of `shape_of_rows`, and knows what it costs and promises before it is made. Memory is kept from one
/// tree to the next.
class shape_growth {
public:
    /// Grows a tree. `budget.children` are at most as many as the chances are of; throws `invalid_input` for more, and
    /// for a budget out of its range.
    void grow(chances_by_row const& chance, shape_budget const& budget) {
        budget.validate();
        if (budget.children > chance.children())
            refuse("budget.children", budget.children,
                   "the chances are those of " + std::to_string(chance.children()) + " children at most");
        nodes_.assign(1, node{});
        offers_.clear();
        inner_ = 0;
        depth_ = 0;
        if (chance.siblings_share() && budget.nodes <= most_divided) {
            divide(chance, budget);
            return;
        }
        push(offer_of(0, chance, budget), budget);
        while (!offers_.empty() && size() <= budget.nodes) {
            std::pop_heap(offers_.begin(), offers_.end());
            offer const best = offers_.back();
            offers_.pop_back();
            // What children add falls where others took a share since; and they must fit.
            offer const now = offer_of(best.node, chance, budget);
            if (now.gain < best.gain || now.children != best.children)
                push(now, budget);
            else
                add(best.node, best.children, chance, budget);
        }
    }

    // Of the last tree.
    [[nodiscard]] node_id size() const noexcept { return static_cast<node_id>(nodes_.size()); }
    [[nodiscard]] node_id inner() const noexcept { return inner_; }           ///< nodes with children
    [[nodiscard]] std::int32_t depth() const noexcept { return depth_; }      ///< of the deepest node
    [[nodiscard]] double tokens() const noexcept { return nodes_[0].below; }  ///< expected accepted nodes
    /// Its shape.
    [[nodiscard]] topology shape() const {
        tree_builder tree;
        for (std::size_t v = 1; v < nodes_.size(); ++v) tree.add(nodes_[v].parent, 0);
        tree.arrange();
        return topology::from_parents(tree.nodes().parents);
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
        node_id parent = none;
        std::int32_t depth = 0;
        index_t rank = 0;
        index_t children = 0;
        node_id first_child = none;
        node_id last_child = none;
        node_id next_sibling = none;
        double below = 0;  ///< expected accepted tokens below it, once it is reached
    };

    /// Nodes that are divided among branches; of more a tree is grown.
    static constexpr node_id most_divided = 64;

    static std::size_t at(node_id v) noexcept { return static_cast<std::size_t>(v); }

    /// The best tree of a number of nodes that pays.
    void divide(chances_by_row const& chance, shape_budget const& budget) {
        allocation_.compute(chance, budget.children, budget.nodes);
        node_id best = 0;
        for (node_id n = 1; n <= budget.nodes; ++n)
            if (allocation_.tokens(n) - allocation_.tokens(best) > budget.least * (n - best)) best = n;
        below_.assign(1, best);
        for (node_id v = 0; v < size(); ++v) {
            std::int32_t const depth = nodes_[at(v)].depth;
            node_id const n = below_[at(v)];
            index_t const count = n > 0 && depth < chance.depth() ? allocation_.children(depth, n) : 0;
            for (index_t k = 0; k < count; ++k) {
                below_.push_back(allocation_.below_child(depth, n, k));
                add_child(v);
            }
        }
        nodes_[0].below = allocation_.tokens(best);
    }

    /// The accepted tokens below a node of n children, of which the last may be new.
    [[nodiscard]] double below(node const& here, index_t n, chances_by_row const& chance) const noexcept {
        if (here.children == 0) return chance.any(here.depth, n);
        double sum = 0;
        node_id child = here.first_child;
        for (index_t k = 0; k < n; ++k) {
            sum += chance(here.depth, n, k) * (1 + (child == none ? 0 : nodes_[at(child)].below));
            if (child != none) child = nodes_[at(child)].next_sibling;
        }
        return sum;
    }
    /// The children of a node, after those it has, that add most, each; several where one alone adds little, as the
    /// first certain child beside a draw. A gain of 0 if there can be none.
    [[nodiscard]] offer offer_of(node_id v, chances_by_row const& chance, shape_budget const& budget) const noexcept {
        offer best{0, v};
        node const& here = nodes_[at(v)];
        if (here.depth >= chance.depth()) return best;
        double reach = 1;
        for (node_id u = v; u > 0; u = nodes_[at(u)].parent) {
            node const& of = nodes_[at(u)];
            reach *= chance(of.depth - 1, nodes_[at(of.parent)].children, of.rank);
        }
        index_t const most = std::min(budget.children - here.children, budget.nodes + 1 - size());
        for (index_t more = 1; more <= most; ++more) {
            double const each = reach * (below(here, here.children + more, chance) - here.below) / more;
            if (each > best.gain) best = {each, v, more};
        }
        return best;
    }
    void push(offer const& one, shape_budget const& budget) {
        if (!(one.gain > 0) || one.gain < budget.least) return;
        offers_.push_back(one);
        std::push_heap(offers_.begin(), offers_.end());
    }
    /// Adds children of a node.
    void add(node_id parent, index_t count, chances_by_row const& chance, shape_budget const& budget) {
        node_id const first = size();
        for (index_t k = 0; k < count; ++k) add_child(parent);
        for (node_id u = parent; u != none; u = nodes_[at(u)].parent)
            nodes_[at(u)].below = below(nodes_[at(u)], nodes_[at(u)].children, chance);
        push(offer_of(parent, chance, budget), budget);
        for (node_id v = first; v < size(); ++v) push(offer_of(v, chance, budget), budget);
    }
    void add_child(node_id parent) {
        node_id const child = size();
        node& up = nodes_[at(parent)];
        node const made{parent, up.depth + 1, up.children};
        if (up.children++ == 0) {
            up.first_child = child;
            ++inner_;
        } else {
            nodes_[at(up.last_child)].next_sibling = child;
        }
        up.last_child = child;
        depth_ = std::max(depth_, made.depth);
        nodes_.push_back(made);
    }

    std::vector<node> nodes_ = std::vector<node>(1);
    std::vector<offer> offers_;  ///< a heap, the best first
    node_allocation allocation_;
    std::vector<node_id> below_;  ///< of each node, while the nodes are divided
    node_id inner_ = 0;
    std::int32_t depth_ = 0;
};

/// The tree of the most expected accepted tokens, grown best first, for rows that are all known before the first draw:
/// those of a block drafter, one for each depth. Children are added where each adds most to the tree's
/// expected accepted tokens, by the chances of children beside their siblings (`chances_of`), until `budget.nodes` are
/// there or the next would add less than `budget.least`. Ties go to the node added first. Where siblings take from one
/// another, as draws that are all alike do, the nodes are divided among the branches (`node_allocation`), of up to 64
/// the best tree there is, and as many as pay `budget.least` each together.
///
/// The shape is a function of rows and of earlier steps, of nothing drawn (`shape_depends_on::nothing`): every verifier
/// is lossless for it. With `top_n` it is the best-first tree of [DDTree], whose children are all certain. At most as
/// deep as there are rows. O(nodes (log nodes + (depth + children) x children)), or where
/// nodes are divided O(depth x children^2 x nodes^2).
///
/// Throws `invalid_input` for a budget out of its range.
template <class Sampler>
[[nodiscard]] topology shape_of_rows(Sampler const& sampler, std::span<depth_outlook const> rows,
                                     shape_budget const& budget) {
    budget.validate();
    shape_growth growth;
    growth.grow(chances_by_row(sampler, rows, budget.children), budget);
    return growth.shape();
}

}  // namespace MULTIDRAFT_NAMESPACE::draft
