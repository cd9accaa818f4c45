// What a draft model reads of a growing tree, call by call: which nodes, and their entries in its cache.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/tree/mask.hpp"
#include "multidraft/tree/tree_builder.hpp"

namespace MULTIDRAFT_NAMESPACE::draft {

/// The next input of the draft model, which returns one row for each node.
///
/// The model's cache holds the context (all tokens before the root) and then an entry for each node in the order read;
/// entry and row have the same index. Views are valid until the tree changes.
struct draft_inputs {
    std::span<node_id const> nodes;           ///< the nodes, numbered as they were added
    std::span<token_id const> tokens;         ///< their tokens
    std::span<std::int32_t const> positions;  ///< in the text
    index_t first_row = 0;                    ///< the entry and the row of `nodes[0]`; the others follow
    mask_view mask;  ///< row k: the entries after the context that `nodes[k]` attends to, its own included

    /// Whether there is no node to read.
    [[nodiscard]] bool empty() const noexcept { return nodes.empty(); }
    [[nodiscard]] std::size_t size() const noexcept { return nodes.size(); }
};

/// The inputs of one tree after another: `begin`, `add` for each node, `inputs`. Gives the nodes their entries, the
/// same for all models that read the inputs. Memory is kept.
class draft_reader {
public:
    /// Reserves memory for that many nodes.
    void reserve(node_id nodes) {
        for (auto* const numbers : {&nodes_, &tokens_, &positions_, &parents_, &path_})
            numbers->reserve(static_cast<std::size_t>(nodes));
        if (mask_.size() == 0) mask_.reset(nodes);
    }

    /// Starts with nothing read. `nodes`: how many may be; with more the mask has to move its rows.
    void start(node_id nodes) {
        begin();
        mask_.reset(nodes);
    }

    /// Begins the next input.
    void begin() {
        for (auto* const numbers : {&nodes_, &tokens_, &positions_, &parents_}) numbers->clear();
    }

    /// Adds a node that was not read, and whose parent was read by an earlier input. It counts as read.
    void add(tree_builder& tree, node_id node) {
        tree_nodes const& all = tree.added();
        auto const v = static_cast<std::size_t>(node);
        nodes_.push_back(node);
        tokens_.push_back(all.tokens[v]);
        positions_.push_back(all.positions[v]);
        parents_.push_back(node == 0 ? none : all.entries[static_cast<std::size_t>(all.parents[v])]);
        tree.set_entry(node, mask_.size() + static_cast<index_t>(nodes_.size()) - 1);
    }

    /// The input of the nodes added. Call it once for each.
    [[nodiscard]] draft_inputs inputs() {
        index_t const first = mask_.size();
        mask_.append(parents_);
        return {nodes_, tokens_, positions_, first, mask_.view().from_row(first)};
    }

    /// The nodes of the last input.
    [[nodiscard]] std::span<node_id const> nodes() const noexcept { return nodes_; }

    /// The entries of these nodes of the tree in level order, the root and a path below it: strictly increasing, up to
    /// the first node that was not read. Throws `invalid_input` for a node that does not exist, and where the tree is
    /// not in level order. Valid until the next call.
    [[nodiscard]] std::span<index_t const> entries_of(tree_builder const& tree, span<node_id const> path) {
        std::vector<index_t> const& entries = tree.nodes().entries;
        path_.clear();
        for (std::size_t k = 0; k < path.size(); ++k) {
            auto const v = static_cast<std::size_t>(path[k]);
            if (path[k] < 0 || v >= entries.size())
                refuse("nodes", static_cast<std::int64_t>(k), path[k],
                       "the tree has " + std::to_string(entries.size()) + " nodes");
            if (entries[v] == none) break;
            path_.push_back(entries[v]);
        }
        return path_;
    }

private:
    std::vector<node_id> nodes_;
    std::vector<token_id> tokens_;
    std::vector<std::int32_t> positions_;
    std::vector<index_t> parents_;  ///< their entries
    std::vector<index_t> path_;
    ancestor_mask mask_;  ///< over entries
};

}  // namespace MULTIDRAFT_NAMESPACE::draft
