// Ragged batches of draft trees, and the law that their children were drawn by.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/tree/topology.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// The trees of some requests, one after another: the nodes of request b are entries `offsets[b]` to `offsets[b + 1]`
/// of the other arrays. Pointers to memory of the machine that reads them; nothing is owned.
///
/// Within a request nodes are numbered from 0, the root; see `tree_view` for their order. The last
/// slots of a node's children may hold no child, but `support_ended` where none could be drawn, as `draft_batch` writes
/// it, or `padding`: they, and everything below them, are not part of the tree. Every child that was drawn is: leaving
/// one out because of its token gives another law, and a plain `none` is refused (tree/absent_tokens.hpp).
struct tree_batch {
    std::int32_t requests = 0;
    std::int64_t nodes = 0;                 ///< of all trees: `offsets[requests]`
    std::int64_t const* offsets = nullptr;  ///< requests + 1 entries, the first of them 0, nondecreasing
    node_id const* parents = nullptr;
    token_id const* tokens = nullptr;  ///< masks and positions do not read them
    /// For each node, how many of its first children are certain, as `draft_batch` writes it; null for laws without
    /// certain children.
    index_t const* certain = nullptr;
    /// Nodes of the largest tree. CUDA and Kokkos divide the workspace of verifiers of whole trees by it; hosts compute
    /// it.
    node_id largest = 0;

    [[nodiscard]] MULTIDRAFT_HD node_id size(std::int32_t b) const noexcept {
        return static_cast<node_id>(offsets[b + 1] - offsets[b]);
    }
    /// The parents of the nodes of request b, counted from its own root.
    [[nodiscard]] MULTIDRAFT_HD span<node_id const> parents_of(std::int32_t b) const noexcept {
        return {parents + offsets[b], static_cast<std::size_t>(size(b))};
    }
    /// The tree of request b.
    [[nodiscard]] MULTIDRAFT_HD tree_view operator()(std::int32_t b) const noexcept {
        return {parents_of(b), {tokens + offsets[b], static_cast<std::size_t>(size(b))}};
    }
    /// How many children of each node of request b are certain; empty where the law has none.
    [[nodiscard]] MULTIDRAFT_HD span<index_t const> certain_of(std::int32_t b) const noexcept {
        if (certain == nullptr) return {};
        return {certain + offsets[b], static_cast<std::size_t>(size(b))};
    }
    /// The request that a node of the batch belongs to: the last one that begins at or before it. O(log requests).
    [[nodiscard]] MULTIDRAFT_HD std::int32_t request_of(std::int64_t node) const noexcept {
        std::int32_t low = 0;
        std::int32_t high = requests - 1;
        while (low < high) {
            std::int32_t const middle = low + (high - low + 1) / 2;
            if (offsets[middle] <= node)
                low = middle;
            else
                high = middle - 1;
        }
        return low;
    }
};

/// Trees with the law that all of them were drawn by: what `verify_batch` and `validate_batch` take. The law is part of
/// the type, so that a verifier of another law does not compile.
template <draft_law Law>
struct drafted_batch {
    using law = Law;
    tree_batch trees;
};

/// States the law by which the trees were drawn: the sampler's, `drawn_by<Sampler::law>(trees)`, or for trees that an
/// engine drew itself the law of its draws (see `draft/law.hpp`).
template <draft_law Law>
[[nodiscard]] MULTIDRAFT_HD constexpr drafted_batch<Law> drawn_by(tree_batch const& trees) noexcept {
    return {trees};
}

}  // namespace MULTIDRAFT_NAMESPACE
