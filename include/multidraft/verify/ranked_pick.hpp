// The child that a node offers under ranked block verification, and its exact law.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "multidraft/core/config.hpp"
#include "multidraft/core/fma.hpp"
#include "multidraft/core/group.hpp"
#include "multidraft/core/span.hpp"
#include "multidraft/distribution/distribution.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/block_weights.hpp"
#include "multidraft/verify/rank_table.hpp"

namespace multidraft::verify {

/// m, the law of the child that is picked: the candidate where it is kept, with probability min(1, p / m~); else one of
/// the certain tokens with probability f, in proportion to p, or the candidate after all.
///
/// min(p, m~) + (m~ - p)+ (1 - f) outside the certain tokens, p R f / p(certain) on them; R is the probability that the
/// candidate is refused.
template <distribution P, distribution Q>
struct picked_law {
    using real = probability_of<P>;
    static constexpr bool dear = true;
    candidate_law<P, Q> candidate;
    real stays;           ///< 1 - f
    real certain_factor;  ///< R f / p(certain)

    [[nodiscard]] MULTIDRAFT_HD index_t size() const { return candidate.size(); }
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD real operator()(index_t i) const {
        real const m = candidate(i);
        real const p = candidate.where.p(i);
        real const kept = m < p ? m : p;
        return detail::choose(candidate.certain.holds(candidate.where.q, i), product(p, certain_factor),
                              fused(m - kept, stays, kept));
    }
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD real weight(index_t i) const { return (*this)(i); }
};

/// What a node's laws are made of again: a few numbers and the densities at the knots.
template <class Real>
struct pick_numbers {
    Real left;            ///< see `ratio_of`
    Real lumped;          ///< see `ratio_of`
    Real inverse;         ///< see `candidate_law`
    Real refused;         ///< R: the candidate is refused
    Real passed;          ///< f: then a certain token is picked
    Real certain_mass;    ///< of the target
    Real certain_factor;  ///< R f / p(certain)
    index_t certain;
    knot_density<Real> density[rank_table::knots];

    template <distribution P, distribution Q>
    [[nodiscard]] MULTIDRAFT_HD candidate_law<P, Q> candidate(P const& p, Q const& q,
                                                              span<token_id const> children) const {
        return {ratio_of<P, Q>{p, q, left, lumped},
                {q, children.first(static_cast<std::size_t>(certain))},
                density,
                inverse};
    }
    template <distribution P, distribution Q>
    [[nodiscard]] MULTIDRAFT_HD picked_law<P, Q> law(P const& p, Q const& q, span<token_id const> children) const {
        return {candidate(p, q, children), 1 - passed, certain_factor};
    }
};

namespace detail {

/// The children of a node. A launch takes trees with room for children that could not be drawn, the last ones.
template <class G>
[[nodiscard]] MULTIDRAFT_HD node_range drawn_children(tree_view tree, node_id node) {
    auto children = tree.children(node);
    if constexpr (!may_throw<G>)
        while (children.count > 0 && tree.tokens[static_cast<std::size_t>(children.end() - 1)] == none)
            --children.count;
    return children;
}

[[nodiscard]] MULTIDRAFT_HD inline span<token_id const> tokens_of(tree_view tree, node_range children) {
    return tree.tokens.subspan(static_cast<std::size_t>(children.first), static_cast<std::size_t>(children.count));
}

/// min(p, m~): what of the candidate is kept.
template <distribution P, distribution Q>
struct accepted_mass {
    candidate_law<P, Q> m;

    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD probability_of<P> operator()(index_t i) const {
        auto const law = m(i);
        auto const p = m.where.p(i);
        return p < law ? p : law;
    }
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD bool counts(index_t i) const { return may_have_mass(m.where.q, i); }
};

/// Makes the sets of a node for a curve, and the numbers of its laws; `table` and `numbers` are memory that all lanes
/// see. One count (two in double), and a sum where there are certain tokens. False when the rows hold no distribution
/// or a child cannot have been drawn.
template <group G, distribution P, distribution Q, class Curve, class Real>
[[nodiscard]] MULTIDRAFT_HD bool make_pick(G const& g, ranked_rows<P, Q>& rows, Curve const& curve, rank_table& table,
                                           pick_numbers<Real>& numbers) {
    for (token_id const x : rows.children)
        if (!(rows.where.q(x) > 0)) return false;
    g.barrier();  // every lane has done with what lay in `table`
    if (!rows.template build<true>(g, curve, table, numbers.density)) return false;
    Real refused = 0;
    Real passed = 0;
    auto const certain_mass = static_cast<Real>(rows.certain_mass);
    if (rows.certain > 0) {
        accepted_mass<P, Q> const smaller{rows.law(numbers.density)};
        Real const accepted = g.sum(rows.where.q.size(), smaller);
        if (accepted != accepted) return false;
        refused = accepted < 1 ? 1 - accepted : Real(0);
        if (refused > Real(1e-15)) passed = certain_mass < refused ? quotient(certain_mass, refused) : Real(1);
    }
    if (g.leader()) {
        numbers.left = rows.where.left;
        numbers.lumped = rows.where.lumped;
        numbers.inverse = static_cast<Real>(1 / rows.mass);
        numbers.refused = refused;
        numbers.passed = passed;
        numbers.certain_mass = certain_mass;
        numbers.certain_factor = certain_mass > 0 ? quotient(product(refused, passed), certain_mass) : Real(0);
        numbers.certain = rows.certain;
    }
    g.barrier();
    return true;
}

/// A step of a picked path: a node, its weight, and the numbers of the law that its child was picked by.
template <class Real>
struct picked_step {
    node_id node;
    Real weight;
    pick_numbers<Real> const* numbers;
};

/// A picked path as `stop_of_block` reads it.
template <class G, class Target, class Draft, class Real>
struct picked_steps {
    tree_view tree;
    Target const& target_rows;
    Draft const& draft_rows;
    picked_step<Real> const* steps;
    std::int32_t levels;

    [[nodiscard]] MULTIDRAFT_HD std::int32_t length() const { return levels; }
    [[nodiscard]] MULTIDRAFT_HD node_id node(std::int32_t level) const { return steps[level].node; }
    [[nodiscard]] MULTIDRAFT_HD token_id token(std::int32_t level) const {
        return tree.tokens[static_cast<std::size_t>(node(level))];
    }
    [[nodiscard]] MULTIDRAFT_HD Real weight(std::int32_t level) const { return steps[level].weight; }
    [[nodiscard]] MULTIDRAFT_HD Target const& target() const { return target_rows; }
    [[nodiscard]] MULTIDRAFT_HD auto conditional(G const& g, std::int32_t level) const {
        node_id const v = node(level);
        return steps[level].numbers->law(target_rows(g, v), draft_rows(g, v),
                                         tokens_of(tree, drawn_children<G>(tree, v)));
    }
};

/// Verifies a picked path as a block and writes what is accepted of it.
template <group G, class Target, class Draft, class Real, draw_source Source>
[[nodiscard]] MULTIDRAFT_HD verdict finish_picked(G const& g, tree_view tree, Target const& target, Draft const& draft,
                                                  picked_step<Real> const* steps, std::int32_t levels, Source& source,
                                                  std::int32_t position, span<node_id> path) {
    picked_steps<G, Target, Draft, Real> const picked{tree, target, draft, steps, levels};
    verdict const result = stop_of_block(g, picked, source, position);
#if !MULTIDRAFT_ON_DEVICE
    if constexpr (may_throw<G>) {
        if (result.next == none) refuse_block(g, picked);
    }
#endif
    if (result.next == none) return {};
    if (g.leader())
        for (std::int32_t k = 0; k < result.accepted; ++k) path[static_cast<std::size_t>(k)] = steps[k + 1].node;
    return result;
}

/// The next address in scratch that is a multiple of 16.
[[nodiscard]] MULTIDRAFT_HD constexpr std::size_t whole_16(std::size_t bytes) { return (bytes + 15) / 16 * 16; }

}  // namespace detail
}  // namespace multidraft::verify
