// Memory that a verifier of whole trees works in, and the one way to call any verifier.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "multidraft/core/config.hpp"
#include "multidraft/core/group.hpp"
#include "multidraft/core/span.hpp"
#include "multidraft/draft/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/detail/checks.hpp"
#include "multidraft/verify/verdict.hpp"

namespace MULTIDRAFT_NAMESPACE::verify {

/// A verifier that keeps something for each node of a tree: it says how many bytes a tree of so many nodes and levels
/// takes, and gets them as its last argument. They are the caller's, seen by all lanes of the group, aligned to
/// `scratch_alignment`, 16 bytes, of any content. On the host too few bytes and an address that is not aligned are an
/// `invalid_input`, which says what is wanted.
template <class V>
concept needs_scratch = requires(node_id nodes, std::int32_t depth) {
    { V::scratch_bytes(nodes, depth) } -> std::same_as<std::size_t>;
};

namespace detail {

/// The next address in scratch that is a multiple of 16.
[[nodiscard]] MULTIDRAFT_HD constexpr std::size_t whole_16(std::size_t bytes) { return (bytes + 15) / 16 * 16; }

}  // namespace detail

/// Bytes that `verify_tree` needs for trees of up to `nodes` nodes (root included) and `depth` levels below the root: 0
/// for a verifier that decides node by node. Never less for more nodes or levels; a multiple of 16.
template <class V>
[[nodiscard]] MULTIDRAFT_HD constexpr std::size_t scratch_bytes(node_id nodes, std::int32_t depth) {
    if constexpr (needs_scratch<V>)
        return detail::whole_16(V::scratch_bytes(nodes, depth));
    else
        return 0;
}

/// Scratch that owns its memory, for hosts: it grows, and is kept from one call to the next.
class scratch_memory {
public:
    /// What `verify_tree` takes for trees of up to so many nodes and levels. Valid until the next call.
    template <class V>
    [[nodiscard]] span<std::byte> of(node_id nodes, std::int32_t depth) {
        return of(scratch_bytes<V>(nodes, depth));
    }

    /// So many bytes. Valid until the next call.
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

/// Calls a verifier, with scratch if it needs some. See `node_by_node::operator()` for the arguments.
template <class V, group G, draft_law Law, class Target, class Draft, draw_source Source>
MULTIDRAFT_HD verdict verify_tree(V const& verifier, G const& g, drafted<Law> const& tree, Target const& target,
                                  Draft const& draft, Source& source, std::int32_t position, span<node_id> path,
                                  span<std::byte> scratch) {
    if constexpr (needs_scratch<V>)
        return verifier(g, tree, target, draft, source, position, path, scratch);
    else
        return verifier(g, tree, target, draft, source, position, path);
}

}  // namespace MULTIDRAFT_NAMESPACE::verify
