// Verifying a tree one node after another: accept a child, step down, until none is accepted.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "multidraft/core/config.hpp"
#include "multidraft/core/group.hpp"
#include "multidraft/core/numbers.hpp"
#include "multidraft/core/optional_members.hpp"
#include "multidraft/core/span.hpp"
#include "multidraft/distribution/distribution.hpp"
#include "multidraft/distribution/row_source.hpp"
#include "multidraft/draft/law.hpp"
#include "multidraft/random/draw_site.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/candidates.hpp"
#include "multidraft/verify/detail/accepted_path.hpp"
#include "multidraft/verify/detail/checks.hpp"
#include "multidraft/verify/emit.hpp"
#include "multidraft/verify/no_draft_rows.hpp"
#include "multidraft/verify/verdict.hpp"
#include "multidraft/verify/verifier.hpp"

namespace MULTIDRAFT_NAMESPACE::verify {

namespace detail {

/// The type of the draft's row that a decision gets; none where it would read rows that do not belong to nodes.
template <class Verifier, class Draft, class G>
struct row_read {};
template <class Verifier, class Draft, class G>
requires(std::is_same_v<Draft, no_draft_rows> || !reads_draft<Verifier>) struct row_read<Verifier, Draft, G> {
    using type = no_draft_rows;
};
template <class Verifier, class Draft, class G>
requires(row_source<Draft, G>&& reads_draft<Verifier>) struct row_read<Verifier, Draft, G> {
    using type = row_of<Draft, G>;
};
template <class Verifier, class Draft, class G>
using row_that_is_read = typename row_read<Verifier, Draft, G>::type;

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
        if constexpr (has_prefetch<Target, G, node_range>) target.prefetch(g, children);
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
/// decision on this one. With a static `Self::reads_draft` that is false q is `no_draft_rows`, and the draft's rows are
/// not read.
///
/// A decision that needs memory declares how much by `static std::size_t Self::scratch_bytes(nodes, depth)`, and gets
/// it as its last argument, a `span<std::byte>` (see `needs_scratch`).
template <class Self, draft_law Law>
class node_by_node {
public:
    using law = Law;

    /// Verifies one tree.
    ///
    /// - `tree`: nodes in level order, node 0 the root, children in the order drawn.
    /// - `target(g, node)`: the target's distribution after a node; read for the nodes on the accepted path only. Rows
    ///   may have a `with_sums(g, node)` (see `emit_at`) and a `prefetch(g, nodes)`, which gets the nodes of which one
    ///   is probably read next.
    /// - `draft(g, node)`: the draft's distribution at a node with children, the one they were drawn from.
    /// - `position`: of the root in the text; with the node it addresses the draws.
    /// - `path`: receives the accepted nodes, root excluded, in order; at least as long as the tree is deep.
    /// - `scratch`: for decisions that need it, `scratch_bytes` of it, else left out.
    ///
    /// Cost: O(children) per level and one pass over p and q per rejected candidate. Host errors: `invalid_input` for
    /// an invalid tree, tokens outside the vocabulary, children impossible under the law (duplicates where it draws
    /// different tokens), rows of different vocabularies, a short path and too little scratch. So are a candidate that
    /// the draft cannot have drawn, and a row without mass or with NaN where the walk reads it. On a device the
    /// verdict's token is then `none`.
    template <group G, draft_law Drawn, row_source<G> Target, draft_row_source<G> Draft, draw_source Source>
    requires node_decision<Self, G, row_of<Target, G>, detail::row_that_is_read<Self, Draft, G>, Source>
        MULTIDRAFT_HD verdict operator()(G const& g, drafted<Drawn> const& tree, Target const& target_rows,
                                         Draft const& draft_rows, Source& source, std::int32_t position,
                                         span<node_id> path, [[maybe_unused]] span<std::byte> scratch = {}) const {
        auto const& target = named<G>(target_rows, "target");
        [[maybe_unused]] auto const& draft = named<G>(draft_rows, "draft");
        static_assert(
            std::is_same_v<Drawn, Law>,
            "multidraft: the tree was drawn by another law than this verifier is for: name the tree's law in the "
            "verifier, such as verify::recursive_rejection<law::sequential>; verify::naive<Law> fits every law");
        detail::check_input<Self>(g, tree, target, draft, path, scratch);
        if constexpr (looks_ahead<G> && has_few_passes<Self>)
            // Where a decision takes few operations, those of all nodes are done together.
            g.look_ahead(tree.tree.size(), [&](node_id v) {
                if (is_present(tree.tree, v))
                    static_cast<void>(detail::decide_at(g, static_cast<Self const&>(*this), tree, target, draft, v,
                                                        source, position, scratch));
            });
        auto const walk =
            detail::walk_down(g, static_cast<Self const&>(*this), tree, target, draft, 0, source, position, scratch);
        if (walk.result.next == none) return {};
        detail::write_path(g, tree.tree, walk.last, walk.result.accepted, path);
        return walk.result;
    }
};

}  // namespace MULTIDRAFT_NAMESPACE::verify
