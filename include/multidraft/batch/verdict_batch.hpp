// Where the verification of a batch writes its verdicts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/batch/tree_batch.hpp"

namespace MULTIDRAFT_NAMESPACE {

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

}  // namespace MULTIDRAFT_NAMESPACE
