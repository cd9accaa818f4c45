// The usual shapes of draft trees.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/tree/topology.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// The largest number of nodes that the functions here build; a request for more is taken for a mistake.
inline constexpr std::int64_t max_shape_nodes = 1 << 20;

/// Every node of level l has `factors[l]` children: k1 x k2 x .. ([MCSD] 4.3, RSD-C). No factors: the root alone.
///
/// 1 + k1 + k1 k2 + .. nodes. Throws `invalid_input` for a factor below 1 and for more than 2^20 nodes.
[[nodiscard]] inline topology branching(span<std::int32_t const> factors) {
    std::int64_t nodes = 1;
    std::int64_t width = 1;
    for (std::size_t l = 0; l < factors.size(); ++l) {
        auto const index = static_cast<std::int64_t>(l);
        if (factors[l] < 1) refuse("factors", index, factors[l], "a level has at least one child per node");
        width *= factors[l];  // at most 2^20 * 2^31
        nodes += width;
        if (nodes > max_shape_nodes) refuse("factors", index, factors[l], "the tree would have more than 2^20 nodes");
    }
    std::vector<node_id> parents;
    parents.reserve(static_cast<std::size_t>(nodes));
    parents.push_back(none);
    node_id begin = 0;
    for (std::size_t l = 0; l < factors.size(); ++l) {
        auto const end = static_cast<node_id>(parents.size());
        for (node_id up = begin; up < end; ++up)
            parents.insert(parents.end(), static_cast<std::size_t>(factors[l]), up);
        begin = end;
    }
    return topology::from_parents(parents);
}

/// The same, written as a list: `branching({4, 2, 2, 1})`.
[[nodiscard]] inline topology branching(std::initializer_list<std::int32_t> factors) {
    return branching(span<std::int32_t const>(factors.begin(), factors.size()));
}

/// `width` chains of `length` tokens that branch at the root ([ImprovingMCSD] 3.2). Throws `invalid_input` for a width
/// below 1, a length below 0 and more than 2^20 nodes.
[[nodiscard]] inline topology fork(std::int32_t width, std::int32_t length) {
    if (width < 1) refuse("width", width, "a fork has at least one chain");
    if (length < 0) refuse("length", length, "a chain has 0 nodes below the root or more");
    if (length > max_shape_nodes) refuse("length", length, "the tree would have more than 2^20 nodes");
    std::vector<std::int32_t> factors(static_cast<std::size_t>(length), 1);
    if (length > 0) factors[0] = width;
    return branching(factors);
}

/// One candidate a level, `length` levels: plain speculative decoding. 0 is the root alone. Throws as `fork`.
[[nodiscard]] inline topology chain(std::int32_t length) { return fork(1, length); }

/// A sparse tree from the list of its nodes below the root, each given by the ranks of the children on its path: the
/// "choices" of Medusa and EAGLE, for example `{{0}, {1}, {0, 0}, {0, 1}, {1, 0}}`. Any order.
///
/// O(total length log N). Throws `invalid_input`, naming the entry, for an empty path, a path whose parent or whose
/// next better-ranked sibling is missing, and a path given twice.
[[nodiscard]] inline topology from_choices(std::span<std::vector<std::int32_t> const> choices) {
    if (choices.size() >= static_cast<std::size_t>(max_shape_nodes))
        refuse("choices.size", choices.size(), "the tree would have more than 2^20 nodes");
    // By length, then lexicographically: level order, with siblings by rank and below one another's parents.
    std::vector<std::size_t> order(choices.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return choices[a].size() != choices[b].size() ? choices[a].size() < choices[b].size() : choices[a] < choices[b];
    });
    std::vector<node_id> parents{none};
    std::size_t candidate = 0;  // index in `order`, plus one, of the parent of the last node added
    node_id siblings = 0;
    for (std::size_t k = 0; k < order.size(); ++k) {
        std::vector<std::int32_t> const& path = choices[order[k]];
        auto const index = static_cast<std::int64_t>(order[k]);
        if (path.empty()) refuse("choices", index, "{}", "the root is always there; a path has at least one rank");
        std::size_t const before = candidate;
        auto const is_parent = [&](std::size_t node) {
            if (node == 0) return path.size() == 1;
            std::vector<std::int32_t> const& up = choices[order[node - 1]];
            return up.size() + 1 == path.size() && std::equal(up.begin(), up.end(), path.begin());
        };
        while (candidate <= k && !is_parent(candidate)) ++candidate;
        if (candidate > k) refuse("choices", index, path.back(), "the path without its last rank is not in the list");
        if (candidate != before) siblings = 0;
        if (path.back() != siblings)
            refuse("choices", index, path.back(),
                   path.back() < siblings && path.back() >= 0 ? "the path is given twice"
                                                              : "ranks count from 0 without gaps among siblings");
        ++siblings;
        parents.push_back(static_cast<node_id>(candidate));
    }
    return topology::from_parents(parents);
}

/// The sparse tree of 25 nodes and five levels that EAGLE drafts by default ([OptimalMDSD] appendix D prints it): a
/// likelier paths have more children, four at most.
[[nodiscard]] inline topology eagle_tree() {
    static constexpr node_id parents[] = {none, 0, 0, 0, 0, 1, 1, 1, 2,  2,  3,  3,  4,
                                          5,    5, 5, 6, 6, 7, 7, 8, 13, 13, 13, 21, 21};
    return topology::from_parents(parents);
}

}  // namespace MULTIDRAFT_NAMESPACE
