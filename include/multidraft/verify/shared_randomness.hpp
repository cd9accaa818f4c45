// Verification by shared randomness: the target runs its race over the same noise as the draft.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/fma.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/race_noise.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/detail/checks.hpp"
#include "multidraft/verify/verdict.hpp"
#include "multidraft/verify/verifier.hpp"

namespace MULTIDRAFT_NAMESPACE::verify {

/// The target's token at a position is argmin_i min_k S_i^(k) / p_i over the lists k of `draft::shared_randomness`
/// ([Daliri24] for one list; [Rowan25] for several). A child with that token is accepted; else the
/// token is emitted.
///
/// Lossless: the minimum of K independent exponentials is exponential, so the winner has the law p, whatever was
/// drafted. No residual, no draft rows, no further draws. The acceptance rate is lower: with one list sum_i 1 / sum_j
/// max(q_j/q_i, p_j/p_i), less than sum min(p, q).
///
/// `lists` is the number of lists in the race. If it is at least the number of children of any node, the text is a
/// function of the seed and the target alone: neither the draft model nor the tree can change a token of it (drafter
/// invariance). With 0, the default, each node uses as many lists as it has children (one list at a leaf). Nodes with
/// few children then accept more, but the text depends on the shape of the trees, and hence on where steps end.
///
/// Cost: one pass over p per level, with one random block per token for every four lists. It takes an
/// `addressed_source`.
class shared_randomness : public whole_tree<shared_randomness, law::shared_randomness> {
public:
    static constexpr verifier_traits traits{.lossless = true, .reads_draft = false};

    shared_randomness() = default;
    /// Throws `invalid_input` on the host for a negative number of lists, and for more than a tree has nodes (2^24).
    MULTIDRAFT_HD explicit shared_randomness(std::int32_t lists) : lists_(lists) {
#if !MULTIDRAFT_ON_DEVICE
        if (lists < 0) refuse("lists", lists, "the number of lists is not negative; 0: as many as a node has children");
        if (lists > max_nodes) refuse("lists", lists, "there are no more lists than a tree has nodes");
#endif
    }

    /// The verdict on one tree; see `whole_tree::operator()`, which calls it. Draft rows are never read: pass
    /// `draft_rows(no_draft_rows{})`.
    template <group G, class Target, class Draft>
    MULTIDRAFT_HD verdict decide_tree(G const& g, drafted<law> const& drafts, Target const& target, Draft const&,
                                      addressed_source const& source, std::int32_t position, span<node_id> path) const {
        tree_view const tree = drafts.tree;
#if !MULTIDRAFT_ON_DEVICE
        if constexpr (G::throws)
            if (position > largest_number<std::int32_t> - tree.depth(tree.size() - 1))
                refuse("position", position, "the positions of the tree's nodes exceed 2^31 - 1");
#endif
        node_id node = 0;
        for (std::int32_t level = 0;; ++level) {
            auto const children = present_children<G>(tree, node);
            std::int32_t const own = children.count > 0 ? children.count : 1;
            token_id const x = winner(g, target(g, node), race_noise{source.uniforms(), below(position, level)},
                                      lists_ > 0 ? lists_ : own);
            node_verdict const here = found_among(candidates_of(drafts, children, node), x);
            if (here.child == none) return detail::accepted_path(g, drafts, target, no_draft_rows{}, node, x, path);
            node = children.first + here.child;
        }
    }

    /// The target's token: argmin over i of the smallest noise of the lists over p_i; `none` for a row without mass,
    /// or with an infinite one.
    template <group G, distribution P>
    [[nodiscard]] MULTIDRAFT_HD static token_id winner(G const& g, P const& p, race_noise noise, std::int32_t lists) {
        using real = probability_of<P>;
        real const mass = g.sum(p.size(), [p](index_t i) MULTIDRAFT_INLINE_LAMBDA { return p.weight(i); });
        if (!(mass > 0 && mass <= largest_number<real>)) return none;
        index_t x = none;
        if (lists <= 4)
            x = g.argmax(p.size(), [p, noise, lists](index_t i) MULTIDRAFT_INLINE_LAMBDA {
                return fp::div(p.weight(i), static_cast<real>(noise.smallest_of_four(lists, i)));
            });
        else
            x = g.argmax(p.size(), [p, noise, lists](index_t i) MULTIDRAFT_INLINE_LAMBDA {
                return fp::div(p.weight(i), static_cast<real>(noise.smallest(lists, i)));
            });
        return x != none && p(x) > 0 ? x : none;
    }

private:
    /// The position that many levels below another. Beyond 2^31 - 1 there is none, and a launch wraps around.
    [[nodiscard]] MULTIDRAFT_HD static std::int32_t below(std::int32_t position, std::int32_t levels) {
        return static_cast<std::int32_t>(static_cast<std::uint32_t>(position) + static_cast<std::uint32_t>(levels));
    }

    std::int32_t lists_ = 0;
};

}  // namespace MULTIDRAFT_NAMESPACE::verify
