// A step of the speculative loop as an observer sees it: the tree, the accepted path, p and q at each node.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/row_source.hpp"
#include "multidraft/tree/topology.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// One step after its verification, before its tokens are emitted. Its views are valid during the call only.
struct step_view {
    std::span<token_id const> text;  ///< before the step; its last token is the root
    tree_view tree;                  ///< parents and tokens of all nodes, the root first
    std::span<node_id const> path;   ///< accepted nodes in order, the root excluded
    token_id next = none;            ///< what is emitted after them
    /// For each node the probability of its token in its parent's row, under the target (p) and the draft (q), both
    /// processed; 1 at the root. `q` is empty where the drafter has no rows, such as a look-up.
    std::span<double const> p;
    std::span<double const> q;
};

/// Called once a step (see `generation_options::observer`); it must not change the state of the loop.
using step_observer = std::function<void(step_view const&)>;

namespace detail {

/// The probability of every node's token in the row of its parent; empty where `rows` does not have these rows.
template <class Rows>
void node_probabilities(host_group const& g, tree_view tree, Rows const& rows, std::vector<double>& into) {
    into.clear();
    if constexpr (row_source<Rows, host_group>) {
        into.push_back(1.0);
        auto const nodes = static_cast<std::size_t>(tree.size());
        for (std::size_t v = 1; v < nodes; ++v)
            into.push_back(static_cast<double>(rows(g, tree.parents[v])(tree.tokens[v])));
    }
}

}  // namespace detail

}  // namespace MULTIDRAFT_NAMESPACE
