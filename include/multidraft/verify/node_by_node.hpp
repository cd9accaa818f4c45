// Verifying a tree one node after another: accept a child, step down, until none is accepted.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "multidraft/core/config.hpp"
#include "multidraft/core/error.hpp"
#include "multidraft/core/group.hpp"
#include "multidraft/core/numbers.hpp"
#include "multidraft/core/span.hpp"
#include "multidraft/distribution/distribution.hpp"
#include "multidraft/draft/law.hpp"
#include "multidraft/random/place.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/candidates.hpp"
#include "multidraft/verify/checks.hpp"
#include "multidraft/verify/emit.hpp"
#include "multidraft/verify/scratch.hpp"
#include "multidraft/verify/verdict.hpp"

namespace multidraft::verify {

/// The tree form of a verifier that decides at one node ([MCSD] Alg. 1-2, [RSD] Alg. 1, [SpecInfer]).
///
/// `Self::decide(g, p, q, candidates, source, where)` gives a `node_verdict` from the target row p, the draft row q and
/// the children's tokens in the order drawn: a `candidate_list`, or a plain span of tokens. If every decision is
/// lossless for the law of the children, so is the walk: the next level's draws are independent of how this one was
/// decided, given the child. With a static `Self::reads_draft` that is false q is `unread`, and the draft's rows are
/// not asked for.
///
/// A decision that needs memory says how much, `static std::size_t Self::scratch_bytes(nodes, depth)`, and gets it as
/// its last argument, a `span<std::byte>` (see `needs_scratch`).
template <class Self, draft_law Law>
class node_by_node {
public:
    using law = Law;

    /// Verifies one tree.
    ///
    /// - `tree`: nodes in level order, node 0 the root, children in the order drawn.
    /// - `target(g, node)`: the target's distribution after a node; read for the nodes on the accepted path only. Rows
    ///   may have a `weighed(g, node)` (see `emit_at`) and an `expect(g, nodes)`, which is told of which nodes one is
    ///   probably read next.
    /// - `draft(g, node)`: the draft's distribution at a node with children, the one they were drawn from.
    /// - `position`: of the root in the text; with the node it addresses the draws.
    /// - `path`: receives the accepted nodes, root excluded, in order; at least as long as the tree is deep.
    /// - `scratch`: for decisions that need it, `scratch_bytes` of it, else left out.
    ///
    /// Cost: O(children) a level and one pass over p and q a rejected candidate. Host errors: `invalid_input` for a
    /// tree that is none, tokens outside the vocabulary, children that the law cannot give (two alike where the law
    /// draws different ones), rows of different vocabularies, a short path, too little scratch, a candidate that the
    /// draft cannot have drawn, a row without mass or with NaN where the walk reads it; on a device the verdict's token
    /// is `none`.
    template <group G, draft_law Drawn, class Target, class Draft, draw_source Source>
    MULTIDRAFT_HD verdict operator()(G const& g, drafted<Drawn> const& tree, Target const& target_rows,
                                     Draft const& draft_rows, Source& source, std::int32_t position, span<node_id> path,
                                     [[maybe_unused]] span<std::byte> scratch = {}) const {
        auto const& target = named<G>(target_rows, "target");
        [[maybe_unused]] auto const& draft = named<G>(draft_rows, "draft");
        static_assert(
            std::is_same_v<Drawn, Law>,
            "multidraft: the tree was drawn by another law than this verifier is for: name the tree's law in the "
            "verifier, such as verify::recursive_rejection<law::sequential>; verify::naive<Law> fits every law");
#if !MULTIDRAFT_ON_DEVICE
        if constexpr (may_throw<G>) {
            detail::check_tree(tree, target, draft, path);
            if constexpr (needs_scratch<Self>) detail::check_scratch<Self>(tree.tree, scratch);
        }
#endif
        verdict result;
        node_id node = 0;
        for (;;) {
            place const where{position, node};
            auto const children = present_children<G>(tree.tree, node);
            node_verdict here;
            if (children.count == 0) {
                here.token = emit_at(g, target, node, source, where);
            } else {
                auto const candidates = candidates_of(tree, children, node);
                auto const p = target(g, node);
                if constexpr (requires { target.expect(g, children); }) target.expect(g, children);
                here = decide_at(g, p, draft, candidates, source, where, scratch);
                // An accepted token whose probability is infinite: the row is no distribution.
                if (here.child != none && !(p(here.token) <= largest_number<probability_of<decltype(p)>>)) here = {};
            }
#if !MULTIDRAFT_ON_DEVICE
            if constexpr (may_throw<G>) {
                if (here.token == none) {
                    if constexpr (asks_draft<Draft>())
                        detail::refuse_node(g, tree, target, draft, node);
                    else
                        detail::refuse_node(g, tree, target, unread{}, node);
                }
            }
#endif
            if (here.token == none) return {};
            if (here.child == none) {
                result.next = here.token;
                break;
            }
            node = children.first + here.child;
            ++result.accepted;
        }
        // Written last and from its end: a walk that is refused leaves the caller's path as it was.
        if (g.leader()) {
            for (std::int32_t k = result.accepted; k-- > 0;) {
                path[static_cast<std::size_t>(k)] = node;
                node = tree.tree.parent(node);
            }
        }
        return result;
    }

private:
    /// Whether decisions read rows of the draft, and there are some.
    template <class Draft>
    [[nodiscard]] MULTIDRAFT_HD static constexpr bool asks_draft() noexcept {
        return !std::is_same_v<Draft, unread> && !requires { requires !Self::reads_draft; };
    }

    template <group G, distribution P, class Draft, draw_source Source>
    [[nodiscard]] MULTIDRAFT_HD node_verdict decide_at(G const& g, P const& p, Draft const& draft,
                                                       candidate_list const& candidates, Source& source, place where,
                                                       [[maybe_unused]] span<std::byte> scratch) const {
        if (candidates.certain < 0) return {};
        auto const with = [&](auto const& q) {
            if constexpr (needs_scratch<Self>)
                return self().decide(g, p, q, candidates, source, where, scratch);
            else
                return self().decide(g, p, q, candidates, source, where);
        };
        if constexpr (!asks_draft<Draft>())
            return with(unread{});
        else
            return with(draft(g, where.node));
    }

    MULTIDRAFT_HD Self const& self() const noexcept { return static_cast<Self const&>(*this); }
};

}  // namespace multidraft::verify
