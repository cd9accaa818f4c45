// Which nodes of a candidate tree the draft models have read, and their entries in the models' caches.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/decode/candidate_tree.hpp"
#include "multidraft/decode/language_model.hpp"
#include "multidraft/decode/metrics.hpp"
#include "multidraft/decode/model_rows.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/sampling_params.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// The cache entry of each node of a `candidate_tree` in the models that draft it (see `model_rows`): the same for all
/// models, since they read the same nodes. Nodes are numbered as added.
class cache_entries {
public:
    /// A root alone, not yet read.
    void start() { entry_.assign(1, none); }
    /// Adds a node, not yet read.
    void add() { entry_.push_back(none); }

    /// The entry of a node; `none` where it has not been read.
    [[nodiscard]] node_id operator[](node_id v) const noexcept { return entry_[at(v)]; }

    /// Has the models read these nodes, whose parents they have read: a level, or the root alone, with which they read
    /// the part of the text that their caches lack.
    template <language_model Model>
    void read(std::span<model_rows<Model>> models, candidate_tree const& tree, std::span<node_id const> nodes,
              host_group const& g, std::span<token_id const> text, sampling_params const& w, generation_metrics& m) {
        if (nodes.front() == 0) {
            for (auto& model : models) model.read_root(g, text, w, m);
            entry_[0] = 0;
            return;
        }
        tokens_.clear();
        parents_.clear();
        positions_.clear();
        for (node_id const v : nodes) {
            tokens_.push_back(tree.token(v));
            parents_.push_back(entry_[at(tree.parent(v))]);
            positions_.push_back(tree.position(v));
        }
        node_id entry = none;
        for (auto& model : models) entry = model.read_nodes(g, tokens_, parents_, positions_, w, m);
        for (node_id const v : nodes) entry_[at(v)] = entry++;
    }

    /// The entries of a path of arranged nodes from the root, as far as they were read. Valid until the next call.
    [[nodiscard]] std::span<node_id const> of_path(candidate_tree const& tree, std::span<node_id const> nodes) {
        path_.clear();
        for (node_id const v : nodes) {
            node_id const entry = entry_[at(tree.added(v))];
            if (entry == none) break;
            path_.push_back(entry);
        }
        return path_;
    }

private:
    static std::size_t at(node_id v) noexcept { return static_cast<std::size_t>(v); }

    std::vector<node_id> entry_;
    std::vector<token_id> tokens_;
    std::vector<node_id> parents_;
    std::vector<std::int32_t> positions_;
    std::vector<node_id> path_;
};

}  // namespace MULTIDRAFT_NAMESPACE
