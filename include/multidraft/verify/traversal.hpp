// Traversal verification: a tree is decided from its leaves up, path by path, with the weights of block verification.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "multidraft/base/blend.hpp"
#include "multidraft/base/config.hpp"
#include "multidraft/base/fma.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/tree/allowed_trees.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/detail/block_weights.hpp"
#include "multidraft/verify/detail/checks.hpp"
#include "multidraft/verify/detail/draft_units.hpp"
#include "multidraft/verify/residual.hpp"
#include "multidraft/verify/verdict.hpp"
#include "multidraft/verify/verifier.hpp"

namespace MULTIDRAFT_NAMESPACE::verify {

/// Traversal verification of a tree ([Traversal]), with scalars in place of stored rows.
///
/// Depth first, in the order drawn. A node has a weight w: 1 at the root, min(1, w_P r(x) / d(x)) for a child x of P. A
/// leaf is accepted with probability w. When the subtree of x was refused, its parent's target and weight become
///
///     R = (w_P r - d)+,  S = sum R,  r <- R / S,  w_P <- S / (S + 1 - w_P),
///
/// for `law::sequential` x is taken out of d and d is renormalised; the weights below the remaining children follow.
/// When no child is left, P is decided as a leaf with its w_P. The token after an accepted node comes from its r, which
/// is p for a node whose children were not tried. The root is always accepted.
///
/// The residual is not stored: r = (p - c q)+ / z with two scalars, c <- c + z / (w s), z <- sum (p - c q)+,
/// S = w z_new / z_old, where s is the mass that q has left, in units (`in_units`). A child with w = 1 is never
/// refused; a refused child has w_P r(x) < d(x), so its residual is 0 from then on without a test.
///
/// Lossless for `law::iid` and `law::sequential`; duplicates have subtrees of their own. With one child per node it is
/// `block`, with one level `recursive_rejection`. (Dividing S by the mass that q has left is biased.)
///
/// Cost: one pass over p and q per refused child, O(1) per accepted one; a subtree of weight 0 is not read. It keeps
/// six numbers per level. `target(g, node)` is called again for an inner node after each refused inner child, so rows
/// that cost a pass to normalise are better prepared beforehand (`remembered_rows`).
template <draft_law Law>
class traversal : public whole_tree<traversal<Law>, Law> {
    static_assert(std::is_same_v<Law, multidraft::law::iid> || std::is_same_v<Law, multidraft::law::sequential>,
                  "multidraft: verify::traversal divides by the law of the draws and is lossless for law::iid and "
                  "law::sequential only; for other laws, law::deterministic among them, use verify::naive");

    /// The residual of a node's target, and the child being tried.
    template <class Real>
    struct frame {
        Real c = 0;  // r = (p - c q)+ / z
        Real z = 1;
        Real left = detail::units_in_1<Real>;  // of q's mass, for the child about to be tried
        Real w = 1;
        node_id node = 0;
        index_t child = 0;
    };

public:
    /// A node is accepted with its weight, whatever the shape below it: the shape carries no information about refused
    /// nodes.
    static constexpr verifier_traits traits{.lossless = true,
                                            .shape_may_depend_on = shape_depends_on::earlier_siblings};

    /// One frame per level.
    [[nodiscard]] MULTIDRAFT_HD static constexpr std::size_t scratch_bytes(node_id /*nodes*/, std::int32_t depth) {
        return static_cast<std::size_t>(depth < 1 ? 1 : depth) * sizeof(frame<double>);
    }

    /// The verdict on one tree; see `whole_tree::operator()`, which calls it.
    template <group G, class Target, class Draft, draw_source Source>
    MULTIDRAFT_HD verdict decide_tree(G const& g, drafted<Law> const& drafts, Target const& target, Draft const& draft,
                                      Source& source, std::int32_t position, span<node_id> path,
                                      span<std::byte> scratch) const {
        using real = probability_of<std::decay_t<decltype(target(g, 0))>>;
        tree_view const tree = drafts.tree;
        auto* const stack = reinterpret_cast<frame<real>*>(scratch.data());
        frame<real> here;
        std::int32_t level = 0;
        bool refused = false;  // whether the subtree of the child `here.child` has just been
        for (;;) {
            auto const next = decide(g, tree, target, draft, source, position, here, refused);
            if (next.what == outcome::down) {
                g.barrier();  // every lane has read the frame that is overwritten next
                if (g.leader()) stack[level] = here;
                ++level;
                here = frame<real>{};
                here.w = next.weight;
                here.node = next.node;
                refused = false;
            } else if (next.what == outcome::refused && level > 0) {
                --level;
                g.barrier();
                here = stack[level];
                refused = true;
            } else {
                return detail::accepted_path(g, drafts, target, draft, next.node, next.token, path);
            }
        }
    }

private:
    enum class outcome : std::uint8_t { next, down, refused, stopped };

    /// The next move: to the node's next child; down to a child that has children, with its weight; or up, since the
    /// node's subtree is refused. Or it stops at an accepted node with the token after it (`none`: the node's rows are
    /// not distributions).
    template <class Real>
    struct step {
        outcome what;
        node_id node;
        token_id token = none;
        Real weight = 0;
    };

    /// Tries the remaining children of a node; the first of them has already been refused if `refused`.
    template <group G, class Target, class Draft, draw_source Source, class Real>
    [[nodiscard]] MULTIDRAFT_HD static step<Real> decide(G const& g, tree_view tree, Target const& target,
                                                         Draft const& draft, Source& source, std::int32_t position,
                                                         frame<Real>& at, bool refused) {
        draw_site const site{position, at.node};
        auto const p = target(g, at.node);
        auto const children = present_children<G>(tree, at.node);
        if (children.count == 0) return {outcome::stopped, at.node, emit(g, p, source, site)};  // the root alone
        auto const q = detail::in_units<Real>(draft(g, at.node));
        span<token_id const> const candidates =
            tree.tokens.subspan(static_cast<std::size_t>(children.first), static_cast<std::size_t>(children.count));
        for (;; ++at.child) {
            if (!refused) {
                auto const tried = try_child(g, tree, target, p, q, source, position, at, children.first + at.child);
                if (tried.what != outcome::next) return tried;
            }
            refused = false;
            auto const left = refuse_child(g, p, q, candidates, source, site, at);
            if (left.what != outcome::next) return left;
        }
    }

    /// Tests a child: it is accepted, or refused so that the next one follows, or its own children decide.
    template <group G, class Target, distribution P, distribution Q, draw_source Source, class Real>
    [[nodiscard]] MULTIDRAFT_HD static step<Real> try_child(G const& g, tree_view tree, Target const& target,
                                                            P const& p, Q const& q, Source& source,
                                                            std::int32_t position, frame<Real> const& at,
                                                            node_id child) {
        token_id const x = tree.tokens[child];
        Real const qx = q(x);
        if (!(qx > 0)) return {outcome::stopped, at.node};
        Real const rest = fp::fma(-at.c, qx, p(x));
        Real const owed = fp::mul(at.w, positive_part(rest));
        Real const w = detail::next_weight(at.left, owed, fp::mul(at.z, qx));
        if (!(w >= 0)) return {outcome::stopped, at.node};  // NaN
        if (!(w > 0)) return {outcome::next, child};
        if (!present_children<G>(tree, child).empty()) return {outcome::down, child, none, w};
        draw_site const site{position, child};
        if (!source.bernoulli(site(purpose::acceptance, 0), w, Real(1))) return {outcome::next, child};
        return {outcome::stopped, child, emit_at(g, target, child, source, site)};
    }

    /// Updates the parent after the refusal of `at.child`: another child to try, or after the last one the decision on
    /// the parent.
    template <group G, distribution P, distribution Q, draw_source Source, class Real>
    [[nodiscard]] MULTIDRAFT_HD static step<Real> refuse_child(G const& g, P const& p, Q const& q,
                                                               span<token_id const> candidates, Source& source,
                                                               draw_site site, frame<Real>& at) {
        auto const tried = candidates.first(static_cast<std::size_t>(at.child) + 1);
        Real const c = at.c + fp::div(at.z, fp::mul(at.w, at.left));
        // Finite, so that c q is 0 and not NaN for tokens without mass under the draft. In units it is large enough to
        // remove every other token.
        constexpr Real most = largest_number<Real>;
        at.c = c < most ? c : most;
        residual const r{p, q, at.c};
        auto const sums = g.sum_chunks(p.size(), r);
        Real const z = sums.total;
        if (z != z) return {outcome::stopped, at.node};
        if (!(z > 0)) {
            if (at.w < 1) return {outcome::refused, at.node};
            // The residual vanished by rounding: p equals q, and in exact arithmetic this has probability 0.
            return {outcome::stopped, at.node, emit_undrafted(g, p, tried, source, site)};
        }
        Real const mass = fp::div(fp::mul(at.w, z), at.z);
        at.z = z;
        at.w = fp::div(mass, mass + (1 - at.w));
        if (!(at.w > 0)) return {outcome::refused, at.node};
        if (tried.size() == candidates.size()) {
            if (at.node != 0 && !source.bernoulli(site(purpose::acceptance, 0), at.w, Real(1)))
                return {outcome::refused, at.node};
            return {outcome::stopped, at.node,
                    source.categorical(g, sums, p.size(), r, {}, site(purpose::residual, 0))};
        }
        if constexpr (std::is_same_v<Law, multidraft::law::sequential>)
            at.left = detail::mass_left(g, q, tried, at.left - q(tried[tried.size() - 1]));
        return {outcome::next, at.node};
    }
};

}  // namespace MULTIDRAFT_NAMESPACE::verify
