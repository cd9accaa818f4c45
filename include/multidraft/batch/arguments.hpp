// What every batched call takes: ragged trees with their law, the addresses of their draws, verdicts, memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/tree/topology.hpp"

namespace MULTIDRAFT_NAMESPACE {

namespace detail {

/// The request of entry `at`: the last one that begins at or before it. O(log requests).
[[nodiscard]] MULTIDRAFT_HD inline std::int32_t request_at(std::int64_t const* starts, std::int32_t requests,
                                                           std::int64_t at) noexcept {
    std::int32_t low = 0;
    std::int32_t high = requests - 1;
    while (low < high) {
        std::int32_t const middle = low + (high - low + 1) / 2;
        if (starts[middle] <= at)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

}  // namespace detail

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
    /// The number of the first request in errors and reports, for a part of a larger batch.
    std::int32_t first_request = 0;

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
        return detail::request_at(offsets, requests, node);
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
/// engine drew itself the law of its draws (see `law/law.hpp`).
template <draft_law Law>
[[nodiscard]] MULTIDRAFT_HD constexpr drafted_batch<Law> drawn_by(tree_batch const& trees) noexcept {
    return {trees};
}

/// The addresses of the draws of a batch (see `addressed_uniforms`).
///
/// Request b has entry b of each array or, with `slot_of`, entry `slot_of[b]`: engines keep these by the request's slot
/// in the batch.
///
/// Sampling parameters are not here but with the rows of logits, since they may differ between target and draft, and
/// rows of probabilities have none.
struct request_batch {
    std::uint64_t const* seeds = nullptr;
    std::int32_t const* positions = nullptr;  ///< of each request's root in its text, from 0
    std::uint32_t const* ids = nullptr;       ///< distinguishes requests with the same seed; may be null: 0
    std::int32_t const* slot_of = nullptr;    ///< may be null

    /// The index of request b in the arrays.
    [[nodiscard]] MULTIDRAFT_HD std::int64_t slot(std::int32_t b) const noexcept {
        return slot_of == nullptr ? b : slot_of[b];
    }
    /// The seed of request b.
    [[nodiscard]] MULTIDRAFT_HD std::uint64_t seed(std::int32_t b) const noexcept { return seeds[slot(b)]; }
    /// The position of the root of request b.
    [[nodiscard]] MULTIDRAFT_HD std::int32_t position(std::int32_t b) const noexcept { return positions[slot(b)]; }
    /// The id of request b, which distinguishes requests with the same seed.
    [[nodiscard]] MULTIDRAFT_HD std::uint32_t id(std::int32_t b) const noexcept {
        return ids == nullptr ? 0U : ids[slot(b)];
    }
    /// Whether an earlier request has the same seed and position, and no ids tell the two apart: both would get the
    /// same draws. O(b).
    [[nodiscard]] MULTIDRAFT_HD bool is_repeated(std::int32_t b) const noexcept {
        if (ids != nullptr) return false;
        bool repeated = false;
        for (std::int32_t c = 0; c < b; ++c)
            repeated = repeated || (slot(c) >= 0 && seed(c) == seed(b) && position(c) == position(b));
        return repeated;
    }
    /// The uniforms of request b.
    [[nodiscard]] MULTIDRAFT_HD addressed_uniforms uniforms(std::int32_t b) const noexcept {
        return addressed_uniforms(seed(b), id(b));
    }
};

/// For request b: the accepted nodes in order, root excluded, their number, and the token that follows them.
///
/// The path of request b begins at `path + b * path_stride` and has space for `path_stride` nodes, which is at least
/// the depth of the deepest tree. With a stride of 0 it begins at `path + offsets[b]` of the trees, and has space for
/// as many nodes as the tree has. Entries beyond `accepted[b]` are not written. Where a request cannot be decided,
/// `next[b]` is `none` and `accepted[b]` 0 (`undecided`).
struct verdict_batch {
    node_id* path = nullptr;
    std::int64_t path_stride = 0;
    std::int32_t* accepted = nullptr;
    token_id* next = nullptr;

    /// The memory for the path of request b.
    [[nodiscard]] MULTIDRAFT_HD span<node_id> path_of(tree_batch const& trees, std::int32_t b) const noexcept {
        if (path_stride > 0) return {path + b * path_stride, static_cast<std::size_t>(path_stride)};
        return {path + trees.offsets[b], static_cast<std::size_t>(trees.size(b))};
    }
    /// The depth that paths have space for, in trees of up to that many nodes.
    [[nodiscard]] MULTIDRAFT_HD std::int32_t deepest(node_id largest) const noexcept {
        return path_stride > 0 && path_stride < largest ? static_cast<std::int32_t>(path_stride) : largest;
    }
};

/// How many requests of a batch could not be decided and have no token: to be looked for after every call, since such a
/// text stops without a word; `validate_batch` says why. The verdicts are in host memory. O(requests).
[[nodiscard]] inline std::int32_t undecided(verdict_batch const& verdicts, std::int32_t requests) noexcept {
    std::int32_t count = 0;
    for (std::int32_t b = 0; b < requests; ++b) count += verdicts.next[b] == none ? 1 : 0;
    return count;
}

/// Bytes that a call may write to: as many as the size function of the call returns (`verify_workspace_size` for
/// `verify_batch`), in memory of the machine that runs it, aligned to 16 bytes, on CUDA to 256, as `cudaMalloc` does.
/// Their content is unspecified before and after; calls that may run concurrently need separate workspaces.
struct workspace {
    void* data = nullptr;
    std::size_t size = 0;

    workspace() = default;
    /// `count` bytes of the caller's memory.
    constexpr workspace(void* bytes, std::size_t count) noexcept : data(bytes), size(count) {}
    /// The bytes of a span of the caller's memory.
    constexpr workspace(span<std::byte> bytes) noexcept  // NOLINT: a view of what is passed
        : data(bytes.data()), size(bytes.size()) {}
};

}  // namespace MULTIDRAFT_NAMESPACE
