// Verifiers that need memory for a tree.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

#include "multidraft/base/config.hpp"
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

}  // namespace MULTIDRAFT_NAMESPACE::verify
