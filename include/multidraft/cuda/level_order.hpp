// Sorting the nodes of trees into level order: the work of one thread, and the comparison.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "multidraft/base/config.hpp"
#include "multidraft/batch/arguments.hpp"
#include "multidraft/batch/linked_trees.hpp"
#include "multidraft/tree/topology.hpp"

namespace MULTIDRAFT_NAMESPACE::cuda {

using multidraft::built_trees;

namespace detail {

/// The scratch of `build_trees`: 20 bytes for each node of the batch.
struct build_scratch {
    std::int64_t* keys = nullptr;     ///< nodes of the batch, sorted
    std::int32_t* request = nullptr;  ///< of each node of the input
    std::int32_t* depth = nullptr;    ///< of each node of the input; `lost` if not connected to the root
    /// Number in the output of each node of the input; before the sort the request's root, in its first element.
    node_id* place = nullptr;

    static constexpr std::int32_t lost = max_nodes;

    [[nodiscard]] MULTIDRAFT_HD bool is_lost(std::int64_t node) const noexcept { return depth[node] == lost; }
};

/// Finds the root of a request, the first node without a parent: O(its place), once and not for each node.
struct find_root {
    tree_batch trees;
    build_scratch scratch;

    MULTIDRAFT_HD void operator()(std::int64_t b) const noexcept {
        std::int64_t const first = trees.offsets[b];
        std::int64_t const end = trees.offsets[b + 1];
        if (first == end) return;
        std::int64_t k = first;
        while (k < end && trees.parents[k] != none) ++k;
        scratch.place[first] = k < end ? static_cast<node_id>(k - first) : none;
    }
};

/// After `find_root`: finds the request and the depth of a node. A node is lost if its chain of parents leaves the
/// tree, does not end, or ends in a root other than the request's first. O(depth): N x depth over a tree at most.
/// Passes from the root down would take a launch for each level.
struct locate_node {
    tree_batch trees;
    build_scratch scratch;

    MULTIDRAFT_HD void operator()(std::int64_t k) const noexcept {
        std::int32_t const b = trees.request_of(k);
        std::int64_t const first = trees.offsets[b];
        auto const size = static_cast<node_id>(trees.offsets[b + 1] - first);
        auto node = static_cast<node_id>(k - first);
        std::int32_t depth = 0;
        while (depth < size) {
            node_id const up = trees.parents[first + node];
            if (up == none) break;
            if (up < 0 || up >= size) {
                depth = size;
                break;
            }
            node = up;
            ++depth;
        }
        if (node != scratch.place[first]) depth = size;
        scratch.keys[k] = k;
        scratch.request[k] = b;
        scratch.depth[k] = depth >= size ? build_scratch::lost : depth;
    }
};

/// Level order, stable: by request, depth, order of the parents, and place in the input. O(depth).
struct before_in_level_order {
    tree_batch trees;
    build_scratch scratch;

    [[nodiscard]] MULTIDRAFT_HD bool operator()(std::int64_t a, std::int64_t b) const noexcept {
        if (scratch.request[a] != scratch.request[b]) return scratch.request[a] < scratch.request[b];
        if (scratch.depth[a] != scratch.depth[b]) return scratch.depth[a] < scratch.depth[b];
        if (scratch.depth[a] == build_scratch::lost) return a < b;
        std::int64_t const first = trees.offsets[scratch.request[a]];
        while (a != b) {
            node_id const above_a = trees.parents[a];
            node_id const above_b = trees.parents[b];
            if (above_a == above_b) return a < b;
            a = first + above_a;
            b = first + above_b;
        }
        return false;
    }
};

/// After the sort: writes the output number of each input node.
struct number_node {
    tree_batch trees;
    build_scratch scratch;

    MULTIDRAFT_HD void operator()(std::int64_t k) const noexcept {
        std::int64_t const from = scratch.keys[k];
        scratch.place[from] = static_cast<node_id>(k - trees.offsets[scratch.request[from]]);
    }
};

/// After the numbering: writes a node. A lost one becomes a second root, which `validate_batch` reports.
struct write_node {
    tree_batch trees;
    build_scratch scratch;
    built_trees out;

    MULTIDRAFT_HD void operator()(std::int64_t k) const noexcept {
        std::int64_t const from = scratch.keys[k];
        std::int64_t const first = trees.offsets[scratch.request[from]];
        node_id const parent = scratch.is_lost(from) ? none : trees.parents[from];
        out.parents[k] = parent == none ? none : scratch.place[first + parent];
        if (out.tokens != nullptr) out.tokens[k] = trees.tokens[from];
        if (out.order != nullptr) out.order[k] = static_cast<node_id>(from - first);
        if (out.rows != nullptr) out.rows[k] = from;
        if (out.certain != nullptr && trees.certain != nullptr) out.certain[k] = trees.certain[from];
        if (out.depths != nullptr) out.depths[k] = scratch.is_lost(from) ? none : scratch.depth[from];
    }
};

/// Counts the lost nodes of a request.
struct count_lost {
    tree_batch trees;
    build_scratch scratch;
    std::int32_t* faults;

    MULTIDRAFT_HD void operator()(std::int64_t b) const noexcept {
        // Lost nodes sort last.
        std::int64_t k = trees.offsets[b + 1];
        while (k > trees.offsets[b] && scratch.is_lost(scratch.keys[k - 1])) --k;
        faults[b] = static_cast<std::int32_t>(trees.offsets[b + 1] - k);
    }
};

/// Sizes are summed in 64 bits.
struct to_long {
    [[nodiscard]] MULTIDRAFT_HD std::int64_t operator()(std::int32_t x) const noexcept { return x; }
};
struct add_long {
    [[nodiscard]] MULTIDRAFT_HD std::int64_t operator()(std::int64_t a, std::int64_t b) const noexcept { return a + b; }
};

/// The order of nodes by score within requests: larger scores first, ties to the lower node, NaN last.
struct before_by_score {
    float const* scores;
    std::int32_t const* request;

    [[nodiscard]] MULTIDRAFT_HD bool operator()(std::int64_t a, std::int64_t b) const noexcept {
        if (request[a] != request[b]) return request[a] < request[b];
        float const x = scores[a];
        float const y = scores[b];
        bool const a_is_number = x == x;
        bool const b_is_number = y == y;
        if (a_is_number != b_is_number) return a_is_number;
        if (a_is_number && x != y) return x > y;
        return a < b;
    }
};

struct init_score_key {
    tree_batch trees;
    std::int64_t* keys;
    std::int32_t* request;

    MULTIDRAFT_HD void operator()(std::int64_t k) const noexcept {
        keys[k] = k;
        request[k] = trees.request_of(k);
    }
};

/// Writes the k-th best node of a request, or `none`.
struct write_best_node {
    tree_batch trees;
    std::int64_t const* keys;
    std::int32_t wanted;
    node_id* out;

    MULTIDRAFT_HD void operator()(std::int64_t i) const noexcept {
        std::int64_t const b = i / wanted;
        std::int64_t const at = trees.offsets[b] + i % wanted;
        out[i] = at < trees.offsets[b + 1] ? static_cast<node_id>(keys[at] - trees.offsets[b]) : none;
    }
};

}  // namespace detail

}  // namespace MULTIDRAFT_NAMESPACE::cuda
