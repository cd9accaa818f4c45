// Verifying a tree one node after another: accept a child, step down, until none is accepted.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/group/optional_members.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/rows/row_source.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/detail/checks.hpp"
#include "multidraft/verify/residual.hpp"
#include "multidraft/verify/traits.hpp"
#include "multidraft/verify/verdict.hpp"
#include "multidraft/verify/verifier.hpp"

namespace MULTIDRAFT_NAMESPACE::verify {

namespace detail {

/// The rows that the children of one node were drawn from, by several models: `of_child(k)` is that of child k.
template <class Draft, class G>
struct rows_of_children {
    Draft const& draft;
    G const& g;
    node_id node;

    [[nodiscard]] MULTIDRAFT_HD auto of_child(index_t k) const { return draft(g, node, k); }
    // The row of the first child, where a single row is needed.
    [[nodiscard]] MULTIDRAFT_HD index_t size() const { return draft.size(); }
    [[nodiscard]] MULTIDRAFT_HD auto operator()(token_id x) const { return of_child(0)(x); }
    [[nodiscard]] MULTIDRAFT_HD auto weight(token_id x) const { return of_child(0).weight(x); }
};

/// Rows of several models, as rows of nodes.
template <class Draft>
struct rows_by_child {
    Draft const& draft;

    [[nodiscard]] MULTIDRAFT_HD auto size() const { return draft.size(); }
    [[nodiscard]] MULTIDRAFT_HD auto rows() const { return draft.rows(); }
    template <group G>
    [[nodiscard]] MULTIDRAFT_HD rows_of_children<Draft, G> operator()(G const& g, node_id node) const {
        return {draft, g, node};
    }
};

/// The draft's rows as a decision at a node gets them.
template <class Verifier, class Draft>
[[nodiscard]] MULTIDRAFT_HD decltype(auto) by_node(Draft const& rows) {
    if constexpr (Verifier::traits.reads_rows_of_children)
        return rows_by_child<Draft>{rows};
    else
        return (rows);
}

/// One step of a walk: the accepted child, as a node, or `none` and the token emitted instead.
struct walk_step {
    node_id child = none;
    token_id token = none;  ///< `none`: the node's rows are not distributions, or a child was not drawn from them
};

/// One node of a walk with a verifier that decides node by node. On the host throws if it returns no token.
template <class Verifier, group G, draft_law Law, row_source<G> Target, draft_row_source<G> Draft, draw_source Source>
[[nodiscard]] MULTIDRAFT_HD walk_step decide_at(G const& g, Verifier const& verifier, drafted<Law> const& tree,
                                                Target const& target, [[maybe_unused]] Draft const& draft, node_id node,
                                                Source& source, std::int32_t position,
                                                [[maybe_unused]] span<std::byte> scratch) {
    constexpr bool asks_draft = !std::is_same_v<Draft, no_draft_rows> && reads_draft<Verifier>;
    draw_site const site{position, node};
    auto const children = present_children<G>(tree.tree, node);
    node_verdict here;
    if (children.count == 0) {
        here.token = emit_at(g, target, node, source, site);
    } else {
        auto const candidates = candidates_of(tree, children, node);
        auto const p = target(g, node);
        if constexpr (detail::has_prefetch<Target, G, node_range>) target.prefetch(g, children);
        auto const with = [&](auto const& q) {
            if constexpr (needs_scratch<Verifier>)
                return verifier.decide(g, p, q, candidates, source, site, scratch);
            else
                return verifier.decide(g, p, q, candidates, source, site);
        };
        if (candidates.certain >= 0) {
            if constexpr (asks_draft)
                here = with(draft(g, node));
            else
                here = with(no_draft_rows{});
        }
        // An accepted token whose probability is infinite: the row is not a distribution.
        if (here.child != none && !(p(here.token) <= largest_number<probability_of<decltype(p)>>)) here = {};
    }
    if (here.token == none) {
        if constexpr (asks_draft)
            refuse_node_on_host(g, tree, target, draft, node);
        else
            refuse_node_on_host(g, tree, target, no_draft_rows{}, node);
    }
    return {here.child == none ? none : children.first + here.child, here.token};
}

/// Where a walk ended, how many children it accepted, and the token after them; `none` if there is none.
struct walk_end {
    node_id last = 0;
    verdict result;
};

/// Walks down from a node as long as a child is accepted.
template <class Verifier, group G, draft_law Law, row_source<G> Target, draft_row_source<G> Draft, draw_source Source>
[[nodiscard]] MULTIDRAFT_HD walk_end walk_down(G const& g, Verifier const& verifier, drafted<Law> const& tree,
                                               Target const& target, Draft const& draft, node_id node, Source& source,
                                               std::int32_t position, span<std::byte> scratch) {
    walk_end walk{node, {}};
    for (;;) {
        walk_step const here = decide_at(g, verifier, tree, target, draft, walk.last, source, position, scratch);
        if (here.child == none || here.token == none) {
            walk.result.next = here.token;
            return walk;
        }
        walk.last = here.child;
        ++walk.result.accepted;
    }
}

}  // namespace detail

/// The tree form of a verifier that decides at one node ([MCSD] Alg. 1-2, [RSD] Alg. 1, [SpecInfer]).
///
/// `Self::decide(g, p, q, candidates, source, site)` gives a `node_verdict` from the target row p, the draft row q and
/// the children's tokens in the order drawn: a `candidate_list`, or a plain span of tokens. If every decision is
/// lossless for the law of the children, so is the walk: given the child, the next level's draws are independent of the
/// decision on this one. Where its `traits` say that it does not read the draft, q is `no_draft_rows`, and the
/// draft's rows are not read.
///
/// A decision that needs memory declares how much by `static std::size_t Self::scratch_bytes(nodes, depth)`, and gets
/// it as its last argument, a `span<std::byte>` (see `needs_scratch`).
template <class Self, draft_law Law>
class node_by_node : public whole_tree<Self, Law> {
public:
    /// The walk down the tree: O(children) per level and one pass over p and q per rejected candidate. Target rows are
    /// read for the nodes on the accepted path only. See `whole_tree::operator()`, which calls it.
    template <group G, class Target, class Draft, draw_source Source>
    MULTIDRAFT_HD verdict decide_tree(G const& g, drafted<Law> const& tree, Target const& target, Draft const& rows,
                                      Source& source, std::int32_t position, span<node_id> path,
                                      [[maybe_unused]] span<std::byte> scratch = {}) const {
        auto const& self = static_cast<Self const&>(*this);
        auto const& draft = detail::by_node<Self>(rows);
        auto const walk = detail::walk_down(g, self, tree, target, draft, 0, source, position, scratch);
        if (walk.result.next == none) return {};
        return detail::accepted_path(g, tree.tree, walk.last, walk.result.next, path);
    }
};

}  // namespace MULTIDRAFT_NAMESPACE::verify
