// The memory that some verifiers need for a tree: how much, and its owner on hosts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/tree/topology.hpp"

namespace MULTIDRAFT_NAMESPACE::verify {

/// The alignment of scratch in bytes.
inline constexpr std::size_t scratch_alignment = 16;

/// A verifier that needs memory for a tree: it declares how many bytes a tree of that many nodes and levels takes, and
/// gets them as its last argument. The memory belongs to the caller, is visible to all lanes of the group, aligned to
/// `scratch_alignment`, 16 bytes, and may have any content. On the host too few bytes or a misaligned address are an
/// `invalid_input`, which states the requirement.
template <class V>
concept needs_scratch = requires(node_id nodes, std::int32_t depth) {
    { V::scratch_bytes(nodes, depth) } -> std::same_as<std::size_t>;
};

namespace detail {

/// The next address in scratch that is a multiple of 16.
[[nodiscard]] MULTIDRAFT_HD constexpr std::size_t whole_16(std::size_t bytes) { return (bytes + 15) / 16 * 16; }

}  // namespace detail

/// Bytes that `verify_tree` needs for trees of up to `nodes` nodes (root included) and `depth` levels below the root: 0
/// for a verifier without scratch (`needs_scratch`). Nondecreasing in both arguments; a multiple of 16.
template <class V>
[[nodiscard]] MULTIDRAFT_HD constexpr std::size_t scratch_bytes(node_id nodes, std::int32_t depth) {
    if constexpr (needs_scratch<V>)
        return detail::whole_16(V::scratch_bytes(nodes, depth));
    else
        return 0;
}

/// Scratch that owns its memory, for hosts: it grows as needed and is reused by later calls.
class scratch_memory {
public:
    /// Scratch for `verify_tree` and trees of up to that many nodes and levels. Valid until the next call.
    template <class V>
    [[nodiscard]] span<std::byte> of(node_id nodes, std::int32_t depth) {
        return of(scratch_bytes<V>(nodes, depth));
    }

    /// Scratch of that many bytes. Valid until the next call.
    [[nodiscard]] span<std::byte> of(std::size_t bytes) {
        std::size_t const blocks = detail::whole_16(bytes) / sizeof(block);
        if (blocks_.size() < blocks) blocks_.resize(blocks);
        return {reinterpret_cast<std::byte*>(blocks_.data()), bytes};
    }

private:
    struct alignas(scratch_alignment) block {
        std::byte bytes[scratch_alignment];
    };
    std::vector<block> blocks_;
};

}  // namespace MULTIDRAFT_NAMESPACE::verify
