// What every verifier of trees refuses on the host, and how it says so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "multidraft/core/config.hpp"
#include "multidraft/core/error.hpp"
#include "multidraft/core/group.hpp"
#include "multidraft/core/span.hpp"
#include "multidraft/distribution/distribution.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/named_rows.hpp"
#include "multidraft/verify/unread.hpp"

namespace multidraft::verify {

/// Bytes that scratch begins at a multiple of.
inline constexpr std::size_t scratch_alignment = 16;

namespace detail {

/// Refuses a tree that is none, tokens outside the vocabulary, rows that do not fit, a path that is too short.
template <class Target, class Draft>
void check_tree(tree_view tree, Target const& target, Draft const& draft, span<node_id> path) {
    validate_tree(tree.parents);
    if (tree.tokens.size() != tree.parents.size())
        refuse("tokens.size", tree.tokens.size(), "a tree has one token a node");
    for (std::size_t i = 1; i < tree.tokens.size(); ++i)
        if (tree.tokens[i] < 0 || tree.tokens[i] >= target.size())
            refuse("tokens", static_cast<std::int64_t>(i), tree.tokens[i], "a token is in the target's vocabulary");
    auto const deepest = static_cast<node_id>(tree.parents.size()) - 1;
    if (static_cast<std::int32_t>(path.size()) < tree.depth(deepest))
        refuse("path.size", path.size(), "the path has room for as many nodes as the tree is deep");
    validate_row_size(target.size(), "target");
    if (target.rows() < static_cast<index_t>(tree.parents.size()))
        refuse("target.rows", target.rows(), "there is one target row a node");
    if constexpr (!std::is_same_v<Draft, unread>) {
        if (draft.size() != target.size()) refuse("draft.size", draft.size(), "draft and target have one vocabulary");
        if (draft.rows() <= tree.parents[static_cast<std::size_t>(deepest)])
            refuse("draft.rows", draft.rows(), "there is one draft row a node with children");
    }
}

/// Refuses scratch that is too small or not aligned, and says what is wanted.
template <class Verifier>
void check_scratch(tree_view tree, span<std::byte> scratch) {
    std::int32_t const depth = tree.depth(tree.size() - 1);
    std::size_t const wanted = Verifier::scratch_bytes(tree.size(), depth);
    if (scratch.size() < wanted)
        refuse("scratch.size", scratch.size(),
               std::to_string(wanted) + " bytes are needed for a tree of " + std::to_string(tree.size()) + " nodes, " +
                   std::to_string(depth) + " levels deep (verify::scratch_bytes)");
    auto const address = reinterpret_cast<std::uintptr_t>(scratch.data());
    if (address % scratch_alignment != 0)
        refuse("scratch.data", address,
               "scratch is aligned to " + std::to_string(scratch_alignment) + " bytes, and this address lies " +
                   std::to_string(address % scratch_alignment) + " behind such a one");
}

/// Says why a node gave no token.
template <group G, class Target, class Draft>
[[noreturn]] void refuse_node(G const& g, tree_view tree, Target const& target, Draft const& draft, node_id node) {
    auto const children = tree.children(node);
    if constexpr (!std::is_same_v<Draft, unread>) {
        if (!children.empty() && g.sum(target.size(), weight_of{target(g, node)}) > 0) {
            auto const q = draft(g, node);
            for (node_id v = children.first; v < children.end(); ++v) {
                token_id const x = tree.tokens[static_cast<std::size_t>(v)];
                if (!(q(x) > 0))
                    refuse("tokens", v, x, "the draft's row gives this token no mass: it was not drawn from it");
            }
        }
    }
    refuse("target", node, "no token", "the rows of this node hold no distribution (NaN, or no mass)");
}

}  // namespace detail
}  // namespace multidraft::verify
