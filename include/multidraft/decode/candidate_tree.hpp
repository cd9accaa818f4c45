// A candidate tree whose nodes are added in any order, and its arrangement in level order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/tree/mask.hpp"
#include "multidraft/tree/topology.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// Nodes in the order in which a drafter finds them (`add`), then as verifiers need them (`arrange`): level order, the
/// children of one node consecutive and in the order in which they were added.
///
/// Nodes have a number as added; `arranged(v)` is the number that verifiers and models see. Memory is kept.
class candidate_tree {
public:
    /// A root alone, at that position of the text.
    void start(token_id root, std::int32_t position) {
        parent_.assign(1, none);
        token_.assign(1, root);
        depth_.assign(1, 0);
        position_ = position;
        arranged_.clear();
    }

    /// Adds a child after the node's other children. Its number is `size() - 1` afterwards.
    node_id add(node_id parent, token_id token) {
        parent_.push_back(parent);
        token_.push_back(token);
        depth_.push_back(depth_[at(parent)] + 1);
        return size() - 1;
    }

    [[nodiscard]] node_id size() const noexcept { return static_cast<node_id>(parent_.size()); }
    /// The parent of a node, by numbers as added; `none` for the root.
    [[nodiscard]] node_id parent(node_id v) const noexcept { return parent_[at(v)]; }
    /// The token of a node.
    [[nodiscard]] token_id token(node_id v) const noexcept { return token_[at(v)]; }
    /// Levels between a node and the root.
    [[nodiscard]] std::int32_t depth(node_id v) const noexcept { return depth_[at(v)]; }
    /// The position of a node in the text.
    [[nodiscard]] std::int32_t position(node_id v) const noexcept { return position_ + depth_[at(v)]; }

    /// The child of a node with that token that was added first; `none` if there is none. O(N).
    [[nodiscard]] node_id child(node_id parent, token_id token) const noexcept {
        for (node_id v = parent + 1; v < size(); ++v)
            if (parent_[at(v)] == parent && token_[at(v)] == token) return v;
        return none;
    }

    /// Puts all nodes, or those for which `kept` is not 0, in level order. The parent of a kept node must be kept.
    /// O(N). `with_mask` false leaves out the mask.
    void arrange(std::span<char const> kept = {}, bool with_mask = true) {
        auto const n = at(size());
        // Children of each node, in order, as linked lists: the first child and, for every node, its next sibling.
        first_.assign(n, none);
        next_.assign(n, none);
        for (std::size_t v = n; v-- > 1;) {
            if (!kept.empty() && kept[v] == 0) continue;
            auto const up = at(parent_[v]);
            next_[v] = first_[up];
            first_[up] = static_cast<node_id>(v);
        }
        arranged_.assign(n, none);
        order_.assign(1, 0);
        arranged_[0] = 0;
        parents_.assign(1, none);
        for (std::size_t i = 0; i < order_.size(); ++i) {
            for (node_id v = first_[at(order_[i])]; v != none; v = next_[at(v)]) {
                arranged_[at(v)] = static_cast<node_id>(order_.size());
                order_.push_back(v);
                parents_.push_back(static_cast<node_id>(i));
            }
        }
        tokens_.clear();
        positions_.clear();
        for (node_id const v : order_) {
            tokens_.push_back(token_[at(v)]);
            positions_.push_back(position(v));
        }
        mask_.reset(static_cast<node_id>(order_.size()));
        if (with_mask) mask_.append(parents_);
    }

    // The arranged tree.
    /// The number of a node in level order; `none` if it was left out.
    [[nodiscard]] node_id arranged(node_id v) const noexcept { return arranged_[at(v)]; }
    /// The number, as added, of an arranged node.
    [[nodiscard]] node_id added(node_id v) const noexcept { return order_[at(v)]; }
    /// How many nodes were arranged, the root included.
    [[nodiscard]] node_id arranged_size() const noexcept { return static_cast<node_id>(order_.size()); }
    [[nodiscard]] tree_view tree() const noexcept { return {parents_, tokens_}; }
    [[nodiscard]] std::span<token_id const> tokens() const noexcept { return tokens_; }
    [[nodiscard]] std::span<std::int32_t const> positions() const noexcept { return positions_; }
    [[nodiscard]] mask_view mask() const noexcept { return mask_.view(); }

private:
    static std::size_t at(node_id v) noexcept { return static_cast<std::size_t>(v); }

    std::int32_t position_ = 0;
    std::vector<node_id> parent_;
    std::vector<token_id> token_;
    std::vector<std::int32_t> depth_;
    std::vector<node_id> first_, next_;
    std::vector<node_id> arranged_, order_;
    std::vector<node_id> parents_;
    std::vector<token_id> tokens_;
    std::vector<std::int32_t> positions_;
    ancestor_mask mask_;
};

}  // namespace MULTIDRAFT_NAMESPACE
