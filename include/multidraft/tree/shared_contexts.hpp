// Nodes with the same context share a row of the target and an entry of its cache.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/tree/mask.hpp"
#include "multidraft/tree/topology.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// The distinct contexts of the nodes of a tree. Siblings with the same token have the same context, and so do their
/// children whose tokens agree: the target needs to read it once.
///
/// The tree itself does not change: each node keeps its number, its children and its draws, and the verifier gets the
/// whole tree with `indexed_rows(rows, contexts.entries())`. So sharing is valid for every law and every verifier; for
/// laws without duplicates it has no effect. The draft's rows may be shared in the same way.
///
/// Entries are numbered in order of first occurrence; a context comes after the one that it extends. Memory is kept.
class shared_contexts {
public:
    /// Finds the contexts. `position` is that of the root in the text. Throws `invalid_input` for an invalid tree.
    /// O(nodes x children).
    void build(tree_view tree, std::int32_t position) {
        validate_tree(tree.parents);
        if (tree.tokens.size() != tree.parents.size())
            refuse("tokens.size", tree.tokens.size(), "a tree has one token per node");
        auto const n = tree.parents.size();
        if (position < 0 || position > largest_position(tree))
            refuse("position", position, "the positions of the tree's nodes lie in [0, 2^31 - 1]");
        entries_.assign(n, 0);
        for (auto* numbers : {&nodes_, &parents_, &tokens_, &positions_, &first_, &next_}) {
            numbers->clear();
            numbers->reserve(n);
        }
        add(none, tree.tokens[0], 0, position);
        for (std::size_t v = 1; v < n; ++v) {
            index_t const up = entries_[at(tree.parents[v])];
            index_t e = first_[at(up)];
            while (e != none && tokens_[at(e)] != tree.tokens[v]) e = next_[at(e)];
            if (e == none) {
                e = size();
                add(up, tree.tokens[v], static_cast<node_id>(v), positions_[at(up)] + 1);
                next_.back() = first_[at(up)];
                first_[at(up)] = e;
            }
            entries_[v] = e;
        }
        mask_.reset(size());
        mask_.append(parents_);
    }

    /// The number of distinct contexts.
    [[nodiscard]] index_t size() const noexcept { return static_cast<index_t>(nodes_.size()); }
    /// For each node the index of its context: its row, and its entry in the cache after those of the text so far.
    [[nodiscard]] std::span<index_t const> entries() const noexcept { return entries_; }

    // What the target reads, one entry for each context.

    /// The first node with each context.
    [[nodiscard]] std::span<node_id const> nodes() const noexcept { return nodes_; }
    /// The entry that each context extends; `none` for the root.
    [[nodiscard]] std::span<index_t const> parents() const noexcept { return parents_; }
    [[nodiscard]] std::span<token_id const> tokens() const noexcept { return tokens_; }
    [[nodiscard]] std::span<std::int32_t const> positions() const noexcept { return positions_; }
    [[nodiscard]] mask_view mask() const noexcept { return mask_.view(); }

    /// The entries of the root and a path below it (`accepted_text::nodes`), strictly rising: what `compact` keeps.
    /// Throws `invalid_input` for a node that does not exist. Valid until the next call.
    [[nodiscard]] std::span<index_t const> entries_of(span<node_id const> nodes) {
        kept_.clear();
        for (std::size_t k = 0; k < nodes.size(); ++k) {
            if (nodes[k] < 0 || at(nodes[k]) >= entries_.size())
                refuse("nodes", static_cast<std::int64_t>(k), nodes[k],
                       "the tree has " + std::to_string(entries_.size()) + " nodes");
            kept_.push_back(entries_[at(nodes[k])]);
        }
        return kept_;
    }

private:
    static std::size_t at(std::int32_t i) noexcept { return static_cast<std::size_t>(i); }
    static std::int32_t largest_position(tree_view tree) {
        return largest_number<std::int32_t> - tree.depth(tree.size() - 1);
    }

    void add(index_t parent, token_id token, node_id node, std::int32_t position) {
        nodes_.push_back(node);
        parents_.push_back(parent);
        tokens_.push_back(token);
        positions_.push_back(position);
        first_.push_back(none);
        next_.push_back(none);
    }

    std::vector<index_t> entries_;
    std::vector<node_id> nodes_;
    std::vector<index_t> parents_;
    std::vector<token_id> tokens_;
    std::vector<std::int32_t> positions_;
    std::vector<index_t> first_, next_;  ///< the entries that extend each one, as linked lists
    std::vector<index_t> kept_;
    ancestor_mask mask_;
};

}  // namespace MULTIDRAFT_NAMESPACE
