// What verifiers check before they decide, how rows at fault are named, and how a verification ends.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/group/optional_members.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/rows/row_source.hpp"
#include "multidraft/tree/allowed_trees.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/traits.hpp"
#include "multidraft/verify/verdict.hpp"

namespace MULTIDRAFT_NAMESPACE::verify::detail {

/// Rows that benefit from knowing the nodes of which one is probably read next: `rows.prefetch(g, nodes)`, with a range
/// of nodes (`node_range`).
template <class Rows, class G, class Nodes>
concept has_prefetch = requires(Rows const& rows, G const& g, Nodes nodes) {
    rows.prefetch(g, nodes);
};

/// Throws an error about a row again, naming the row of that node.
[[noreturn]] MULTIDRAFT_COLD inline void rethrow_named(invalid_input const& e, char const* name, node_id node) {
    std::string const row = std::string(name) + " row of node " + std::to_string(node);
    // A row of logits is called `logits` or `target logits` in errors, and its size `logits.size`.
    std::string const& argument = e.argument();
    std::size_t const end = argument.find("logits");
    throw invalid_input(end == std::string::npos ? argument + " of the " + row : row + argument.substr(end + 6),
                        e.index(), e.value(), e.reason(), node);
}

/// The rows of a tree under a name: an `invalid_input` about the row of node 3 has the argument `target row of node 3`
/// and that node. For hosts; the rows are otherwise unchanged.
template <class Rows>
class named_rows {
public:
    /// The rows and the name belong to the caller and must outlive this object.
    named_rows(Rows const& rows, char const* name) noexcept : rows_(rows), name_(name) {}

    [[nodiscard]] auto rows() const { return rows_.rows(); }
    [[nodiscard]] auto size() const { return rows_.size(); }
    template <group G>
    requires row_source<Rows, G>
    [[nodiscard]] auto operator()(G const& g, node_id node) const {
        return under_name(node, [&] { return rows_(g, node); });
    }
    template <group G>
    requires child_row_source<Rows, G>
    [[nodiscard]] auto operator()(G const& g, node_id node, index_t child) const {
        return under_name(node, [&] { return rows_(g, node, child); });
    }
    template <group G>
    requires has_with_sums<Rows, G>
    [[nodiscard]] auto with_sums(G const& g, node_id node) const {
        return under_name(node, [&] { return rows_.with_sums(g, node); });
    }
    template <group G>
    requires has_prefetch<Rows, G, node_range>
    void prefetch(G const& g, node_range nodes) const { rows_.prefetch(g, nodes); }

private:
    template <class Ask>
    [[nodiscard]] auto under_name(node_id node, Ask const& ask) const {
        try {
            return ask();
        } catch (invalid_input const& e) {
            if (e.node() != none) throw;  // already named
            rethrow_named(e, name_, node);
        }
    }

    Rows const& rows_;
    char const* name_;
};

/// The rows under a name where errors are thrown; otherwise, and for `no_draft_rows`, the rows themselves.
template <class G, class Rows>
[[nodiscard]] MULTIDRAFT_HD decltype(auto) named(Rows const& rows, [[maybe_unused]] char const* name) {
#if MULTIDRAFT_ON_DEVICE
    return (rows);
#else
    if constexpr (G::throws && !std::is_same_v<Rows, no_draft_rows>)
        return named_rows<Rows>(rows, name);
    else
        return (rows);
#endif
}

/// Refuses a child that its node has twice. `differ`: the law draws different tokens; `certain`: the child is.
[[noreturn]] MULTIDRAFT_COLD inline void refuse_twin(node_id parent, node_id child, token_id x, bool differ,
                                                     bool certain) {
    refuse("tokens", child, x,
           "node " + std::to_string(parent) + " has this child twice: " +
               (differ    ? "the law draws different tokens"
                : certain ? "certain children are different tokens"
                          : "once certain and once drawn from the other tokens"));
}

/// Refuses impossible certain children: more than there are children, duplicates, or one that was drawn again; and,
/// where the law draws different tokens, duplicate children. `certain`: of each node, where the law `counts` them.
inline void check_children(tree_view tree, span<index_t const> certain, bool counts, bool differ) {
    auto const at = [](node_id v) { return static_cast<std::size_t>(v); };
    if (counts && certain.size() != tree.tokens.size())
        refuse("certain.size", certain.size(),
               "a tree of this law says of each node how many of its children are certain");
    node_id first = 1;
    for (node_id v = 0; v < tree.size(); ++v) {
        node_id end = first;
        while (end < tree.size() && tree.parents[at(end)] == v) ++end;
        node_id apart = differ ? end : first;  // the children before it are known to differ from all others
        if (counts) {
            index_t const here = certain[at(v)];
            if (here < 0 || here > end - first)
                refuse("certain", v, here, "the node has " + std::to_string(end - first) + " children");
            if (apart < first + here) apart = first + here;
        }
        for (node_id child = first + 1; child < end && apart > first; ++child) {
            token_id const x = tree.tokens[at(child)];
            node_id const before = child < apart ? child : apart;
            bool again = false;
            for (node_id other = first; other < before; ++other) again |= tree.tokens[at(other)] == x;
            if (again) refuse_twin(v, child, x, differ, child < apart);
        }
        first = end;
    }
}

/// Refuses an invalid tree, tokens outside the vocabulary, children that its law cannot give, rows that do not fit,
/// a path that is too short.
template <draft_law Law, class Target, class Draft>
void check_tree(drafted<Law> const& drafts, Target const& target, Draft const& draft, span<node_id> path) {
    tree_view const tree = drafts.tree;
    validate_tree(tree.parents);
    if (tree.tokens.size() != tree.parents.size())
        refuse("tokens.size", tree.tokens.size(), "a tree has one token per node");
    for (std::size_t i = 1; i < tree.tokens.size(); ++i)
        if (tree.tokens[i] < 0 || tree.tokens[i] >= target.size())
            refuse("tokens", static_cast<std::int64_t>(i), tree.tokens[i], "a token is in the target's vocabulary");
    span<index_t const> certain;
    if constexpr (counts_certain<Law>) certain = drafts.certain;
    check_children(tree, certain, counts_certain<Law>, tokens_differ<Law>);
    auto const deepest = static_cast<node_id>(tree.parents.size()) - 1;
    if (static_cast<std::int32_t>(path.size()) < tree.depth(deepest))
        refuse("path.size", path.size(), "the path has room for as many nodes as the tree is deep");
    validate_row_size(target.size(), "target");
    if (target.rows() < static_cast<index_t>(tree.parents.size()))
        refuse("target.rows", target.rows(), "there is one target row per node");
    if constexpr (!std::is_same_v<Draft, no_draft_rows>) {
        if (draft.size() != target.size()) refuse("draft.size", draft.size(), "draft and target have one vocabulary");
        if (draft.rows() <= tree.parents[deepest])
            refuse("draft.rows", draft.rows(), "there is one draft row per node with children");
    }
}

/// Refuses the row of a node for an entry that is no probability or, with `token` none, for having no mass.
template <class Real>
[[noreturn]] MULTIDRAFT_COLD void refuse_row(char const* argument, node_id node, index_t token, Real value) {
    std::string const whose = std::string("the ") + argument + " row of node " + std::to_string(node);
    if (token == none) refuse(argument, node, value, whose + " has no mass");
    refuse(argument, node, value, whose + " is not a distribution (token " + std::to_string(token) + ")");
}

/// Refuses a row that is not a distribution, naming the row and the fault.
template <group G, distribution Row>
MULTIDRAFT_COLD void check_row(G const& g, Row const& row, char const* argument, node_id node) {
    auto const mass = g.sum(row.size(), weight_of{row});
    if (mass > 0 && mass <= largest_number<decltype(mass)>) return;
    for (index_t i = 0; i < row.size(); ++i)
        if (!(row(i) >= 0 && row(i) <= largest_number<decltype(row(i))>)) refuse_row(argument, node, i, row(i));
    refuse_row(argument, node, none, mass);
}

/// Throws where a group's algorithms may throw. Elsewhere it does nothing, and the caller's verdict has no token.
/// Arguments as for `refuse`.
template <class G, class... What>
MULTIDRAFT_HD void refuse_on_host([[maybe_unused]] What const&... what) {
#if !MULTIDRAFT_ON_DEVICE
    if constexpr (G::throws) refuse(what...);
#endif
}

/// Whether every node is the child of the one before. If not, throws on the host with the given reason.
template <class G>
[[nodiscard]] MULTIDRAFT_HD bool is_chain(tree_view tree, char const* reason) {
    node_id const v = first_not_allowed(tree, allowed_trees::chains);
    if (v == none) return true;
    refuse_on_host<G>("children", tree.parents[v], tree.children(tree.parents[v]).count, reason);
    return false;
}

/// Refuses scratch of fewer bytes than are `wanted` for a tree, and states the requirement.
[[noreturn]] MULTIDRAFT_COLD inline void refuse_scratch(std::size_t there, std::size_t wanted, node_id nodes,
                                                        std::int32_t depth) {
    refuse("scratch.size", there,
           std::to_string(wanted) + " bytes are needed for a tree of " + std::to_string(nodes) + " nodes, " +
               std::to_string(depth) + " levels deep (verify::scratch_bytes)");
}

/// Refuses scratch at an address that is not aligned.
[[noreturn]] MULTIDRAFT_COLD inline void refuse_scratch_at(std::uintptr_t address) {
    refuse("scratch.data", address,
           "scratch is aligned to " + std::to_string(scratch_alignment) + " bytes, and this address lies " +
               std::to_string(address % scratch_alignment) + " behind such a one");
}

/// Refuses scratch that is too small or misaligned.
template <class Verifier>
void check_scratch(tree_view tree, span<std::byte> scratch) {
    std::int32_t const depth = tree.depth(tree.size() - 1);
    std::size_t const wanted = Verifier::scratch_bytes(tree.size(), depth);
    if (scratch.size() < wanted) refuse_scratch(scratch.size(), wanted, tree.size(), depth);
    auto const address = reinterpret_cast<std::uintptr_t>(scratch.data());
    if (address % scratch_alignment != 0) refuse_scratch_at(address);
}

/// Rows of several models: `q.of_child(k)` is the one that child k of a node was drawn from.
template <class Q>
concept has_row_per_child = requires(Q const& q, index_t k) {
    { q.of_child(k) } -> distribution;
};

/// The draft's probability of child k of a node.
template <class Q>
[[nodiscard]] auto probability_of_child(Q const& q, [[maybe_unused]] index_t k, token_id x) {
    if constexpr (has_row_per_child<Q>)
        return q.of_child(k)(x);
    else
        return q(x);
}

/// Refuses a child that the draft row of its node cannot have given.
[[noreturn]] MULTIDRAFT_COLD inline void refuse_undrawn(node_id parent, node_id child, token_id x) {
    refuse("tokens", child, x,
           "the draft row of node " + std::to_string(parent) + " gives this token no mass: it was not drawn from it");
}
[[noreturn]] MULTIDRAFT_COLD inline void refuse_rows_without_token(node_id node) {
    refuse("target", node, "no token", "the rows of node " + std::to_string(node) + " leave nothing to emit");
}

/// Reports why a node gave no token.
template <group G, draft_law Law, class Target, class Draft>
[[noreturn]] MULTIDRAFT_COLD void refuse_node(G const& g, drafted<Law> const& drafts, Target const& target,
                                              Draft const& draft, node_id node) {
    check_row(g, target(g, node), "target", node);
    auto const children = drafts.tree.children(node);
    if constexpr (!std::is_same_v<Draft, no_draft_rows>) {
        if (!children.empty()) {
            auto const q = draft(g, node);
            if constexpr (distribution<std::decay_t<decltype(q)>>) check_row(g, q, "draft", node);
            for (node_id v = children.first + certain_of(drafts, children, node); v < children.end(); ++v) {
                token_id const x = drafts.tree.tokens[v];
                if (!(probability_of_child(q, v - children.first, x) > 0)) refuse_undrawn(node, v, x);
            }
        }
    }
    refuse_rows_without_token(node);
}

/// On the host, refuses what every verifier of trees refuses (`check_tree`), and unsuitable scratch.
template <class Verifier, group G, draft_law Law, class Target, class Draft>
MULTIDRAFT_HD void check_input([[maybe_unused]] G const& g, [[maybe_unused]] drafted<Law> const& drafts,
                               [[maybe_unused]] Target const& target, [[maybe_unused]] Draft const& draft,
                               [[maybe_unused]] span<node_id> path, [[maybe_unused]] span<std::byte> scratch = {}) {
#if !MULTIDRAFT_ON_DEVICE
    if constexpr (G::throws) {
        check_tree(drafts, target, draft, path);
        if constexpr (needs_scratch<Verifier>) check_scratch<Verifier>(drafts.tree, scratch);
    }
#endif
}

/// On the host, reports why a node gave no token (`refuse_node`); elsewhere it does nothing.
template <group G, draft_law Law, class Target, class Draft>
MULTIDRAFT_HD void refuse_node_on_host([[maybe_unused]] G const& g, [[maybe_unused]] drafted<Law> const& drafts,
                                       [[maybe_unused]] Target const& target, [[maybe_unused]] Draft const& draft,
                                       [[maybe_unused]] node_id node) {
#if !MULTIDRAFT_ON_DEVICE
    if constexpr (G::throws) refuse_node(g, drafts, target, draft, node);
#endif
}

/// The verdict that accepts the path from the root to `last`, with the token after it; the leader writes the path, the
/// root left out. Called last, so that a verification that fails leaves the caller's path unchanged.
template <group G>
[[nodiscard]] MULTIDRAFT_HD verdict accepted_path(G const& g, tree_view tree, node_id last, token_id next,
                                                  span<node_id> path) {
    verdict const result{tree.depth(last), next};
    if (g.leader())
        for (std::int32_t k = result.accepted; k-- > 0; last = tree.parent(last)) path[k] = last;
    return result;
}

/// The same; without a token the host reports why (`refuse_node`). `draft`: the draft's rows, or `no_draft_rows` where
/// they were not read.
template <group G, draft_law Law, class Target, class Draft>
[[nodiscard]] MULTIDRAFT_HD verdict accepted_path(G const& g, drafted<Law> const& drafts, Target const& target,
                                                  Draft const& draft, node_id last, token_id next, span<node_id> path) {
    if (next != none) return accepted_path(g, drafts.tree, last, next, path);
    refuse_node_on_host(g, drafts, target, draft, last);
    return {};
}

}  // namespace MULTIDRAFT_NAMESPACE::verify::detail
