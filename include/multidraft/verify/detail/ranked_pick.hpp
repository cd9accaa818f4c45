// The child selected at a node by ranked block verification, and its exact law.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "multidraft/core/config.hpp"
#include "multidraft/core/fma.hpp"
#include "multidraft/core/group.hpp"
#include "multidraft/core/optional_members.hpp"
#include "multidraft/core/span.hpp"
#include "multidraft/distribution/distribution.hpp"
#include "multidraft/draft/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/candidates.hpp"
#include "multidraft/verify/detail/block_weights.hpp"
#include "multidraft/verify/detail/certain_tokens.hpp"
#include "multidraft/verify/detail/draft_units.hpp"
#include "multidraft/verify/detail/rank_table.hpp"
#include "multidraft/verify/verdict.hpp"

namespace MULTIDRAFT_NAMESPACE::verify {

/// The law of the selected child outside the certain tokens: the candidate, if it is kept, with probability min(1, p /
/// m~), or if it is refused but no certain token is selected.
template <distribution P, distribution Q>
struct law_of_kept {
    using real = probability_of<P>;
    static constexpr bool expensive = true;
    law_of_draws<P, Q> draws;
    real stays;  ///< 1 - f

    [[nodiscard]] MULTIDRAFT_HD index_t size() const { return draws.size(); }
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD real operator()(index_t i) const {
        real const m = draws(i);
        real const p = draws.where.p(i);
        real const kept = m < p ? m : p;
        return fp::fma(m - kept, stays, kept);
    }
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD real weight(index_t i) const { return (*this)(i); }
};

/// m, the law of the selected child: the candidate is kept with probability min(1, p / m~). Otherwise one of the
/// certain tokens is selected with probability f, in proportion to p, and the candidate with probability 1 - f.
///
/// min(p, m~) + (m~ - p)+ (1 - f) outside the certain tokens, p R f / p(certain) on them; R is the probability that the
/// candidate is refused, 1 where there is none.
template <distribution P, distribution Q>
struct picked_law {
    using real = probability_of<P>;
    static constexpr bool expensive = true;
    law_of_kept<P, Q> kept;
    certain_tokens<Q> certain;
    real certain_factor;  ///< R f / p(certain)

    [[nodiscard]] MULTIDRAFT_HD index_t size() const { return kept.size(); }
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD real operator()(index_t i) const {
        return certain.holds(i) ? fp::mul(kept.draws.where.p(i), certain_factor) : kept(i);
    }
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD real weight(index_t i) const { return (*this)(i); }
    [[nodiscard]] MULTIDRAFT_HD bool is_elsewhere(index_t begin, index_t end) const {
        return !certain.any_in(begin, end);
    }
    [[nodiscard]] MULTIDRAFT_HD law_of_kept<P, Q> elsewhere() const { return kept; }
};

/// The data from which a node's laws are reconstructed: a few numbers and the densities at the grid points.
template <class Real>
struct pick_numbers {
    Real left;            ///< see `ratio_of`
    Real pooled;          ///< see `ratio_of`
    Real inverse;         ///< see `law_of_draws`; 0 where nothing is drawn
    Real passed;          ///< f: the probability that a certain token is selected once the candidate is refused
    Real certain_factor;  ///< R f / p(certain)
    grid_density<Real> density[rank_table::grid_points];

    /// All but the densities, from the rows of a node with draws.
    template <class Rows>
    MULTIDRAFT_HD void set(Rows const& rows, Real f, Real factor) {
        left = rows.where.left;
        pooled = rows.where.pooled;
        inverse = static_cast<Real>(1 / rows.mass);
        passed = f;
        certain_factor = factor;
    }

    /// The laws of the candidate and of the selected child; q is the draft's row itself.
    template <distribution P, distribution Q>
    [[nodiscard]] MULTIDRAFT_HD auto candidate(P const& p, Q const& q, candidate_list children) const {
        using row = in_units_of<Q, Real>;
        row const in = in_units<Real>(q);
        return candidate_law<P, row>{draws(p, in), {in, children.certain_tokens()}};
    }
    /// The law of the selected child for these rows and children.
    template <distribution P, distribution Q>
    [[nodiscard]] MULTIDRAFT_HD auto law(P const& p, Q const& q, candidate_list children) const {
        using row = in_units_of<Q, Real>;
        row const in = in_units<Real>(q);
        return picked_law<P, row>{{draws(p, in), 1 - passed}, {in, children.certain_tokens()}, certain_factor};
    }

private:
    template <distribution P, distribution Q>
    [[nodiscard]] MULTIDRAFT_HD law_of_draws<P, Q> draws(P const& p, Q const& q) const {
        return {ratio_of<P, Q>{p, q, left, pooled}, density, inverse};
    }
};

namespace detail {

/// min(p, m~): the part of the candidate's law that is kept.
template <distribution P, class Law>
struct accepted_mass {
    P p;
    Law m;

    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD probability_of<P> operator()(index_t i) const {
        auto const law = m(i);
        auto const here = p(i);
        return here < law ? here : law;
    }
    [[nodiscard]] MULTIDRAFT_HD bool is_elsewhere(index_t begin, index_t end) const requires has_elsewhere<Law> {
        return m.is_elsewhere(begin, end);
    }
    [[nodiscard]] MULTIDRAFT_HD auto elsewhere() const requires has_elsewhere<Law> {
        return accepted_mass<P, decltype(m.elsewhere())>{p, m.elsewhere()};
    }
    /// Rows truncated by top-k or top-p have few tokens of p, and m is expensive.
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD bool may_be_nonzero(index_t i) const { return may_have_mass(p, i); }
};
template <class P, class Law>
accepted_mass(P, Law) -> accepted_mass<P, Law>;

/// The outcome of computing the sets of a node.
enum class made : std::uint8_t {
    sets,     ///< a child is selected by sets
    leaf,     ///< all children are certain and have no mass under the target: no child is selected
    nothing,  ///< the rows are not distributions, or a child is impossible
};

/// The numbers of a node whose children are all certain: one of them is selected, in proportion to p.
template <group G, distribution P, class Real>
[[nodiscard]] MULTIDRAFT_HD made pick_certain(G const& g, P const& p, candidate_list children,
                                              pick_numbers<Real>& numbers) {
    double certain_mass = 0;
    for (token_id const x : children.tokens) certain_mass += static_cast<double>(p(x));
    if (certain_mass != certain_mass) return made::nothing;
    if (certain_mass < least_certain) return made::leaf;
    if (g.leader()) {
        numbers.left = 1;
        numbers.pooled = 0;
        numbers.inverse = 0;
        numbers.passed = 1;
        numbers.certain_factor = static_cast<Real>(1 / certain_mass);
        for (auto& density : numbers.density) density.set(0, 0);
    }
    g.barrier();
    return made::sets;
}

/// R, the probability that the candidate is refused: a sum over the rows. NaN where a row holds NaN.
template <group G, distribution P, class Law>
[[nodiscard]] MULTIDRAFT_HD probability_of<P> refused_mass(G const& g, P const& p, Law const& candidate) {
    using real = probability_of<P>;
    real const accepted = g.sum(p.size(), accepted_mass{p, candidate});
    return accepted >= 1 ? real(0) : 1 - accepted;
}

/// f, the probability that a certain token is selected instead of a refused candidate: such that the certain tokens get
/// their full mass under the target if R is large enough. The laws are exact for any f in [0, 1].
template <class Real>
[[nodiscard]] MULTIDRAFT_HD Real passed_on(Real refused, Real certain_mass) {
    if (!(refused > Real(1e-15))) return 0;
    return certain_mass < refused ? fp::div(certain_mass, refused) : Real(1);
}

/// R f / p(certain).
template <class Real>
[[nodiscard]] MULTIDRAFT_HD Real factor_of_certain(Real refused, Real passed, Real certain_mass) {
    return certain_mass > 0 ? fp::div(fp::mul(refused, passed), certain_mass) : Real(0);
}

/// Computes the sets of a node for a curve, and the numbers of its laws; `table` and `numbers` are memory that all
/// lanes see. One counting pass (two in double), and a sum where there are certain tokens; neither where all are
/// certain.
template <group G, distribution P, distribution Q, class Curve, class Real>
[[nodiscard]] MULTIDRAFT_HD made make_pick(G const& g, P const& p, Q const& q, candidate_list children,
                                           Curve const& curve, rank_table& table, pick_numbers<Real>& numbers) {
    if (children.certain < 0 || !may_be_drawn(q, children)) return made::nothing;
    g.barrier();  // every lane has finished with the old content of `table`
    if (children.draws() == 0) return pick_certain(g, p, children, numbers);
    ranked_rows<P, in_units_of<Q, Real>> rows(g, p, in_units<Real>(q), children);
    if (!rows.template build<true>(g, curve, table, numbers.density)) return made::nothing;
    Real refused = 0;
    auto const certain_mass = static_cast<Real>(rows.certain_mass);
    if (children.certain > 0) {
        refused = refused_mass(g, p, rows.law(numbers.density));
        if (refused != refused) return made::nothing;
    }
    Real const passed = passed_on(refused, certain_mass);
    if (g.leader()) numbers.set(rows, passed, factor_of_certain(refused, passed, certain_mass));
    g.barrier();
    return made::sets;
}

/// Has a group do the operations of `make_pick` that do not depend on the curve; overwrites `table`.
template <group G, distribution P, distribution Q>
void count_for_pick(G const& g, P const& p, Q const& q, candidate_list children, rank_table& table) {
    using real = probability_of<P>;
    if (children.certain < 0 || children.draws() == 0 || !may_be_drawn(q, children)) return;
    ranked_rows<P, in_units_of<Q, real>> rows(g, p, in_units<real>(q), children);
    if (rows.where.left > 0)
        static_cast<void>(ratio_histogram<true>(g, rows.where, children.certain_tokens(), table.length));
}

/// A step of a selected path: a node, its weight, and the numbers of the law by which its child was selected.
template <class Real>
struct picked_step {
    node_id node;
    Real weight;
    pick_numbers<Real> const* numbers;
};

/// A selected path as `stop_of_block` reads it.
template <class G, draft_law Law, class Target, class Draft, class Real>
struct picked_steps {
    drafted<Law> const& drafts;
    Target const& target_rows;
    Draft const& draft_rows;
    picked_step<Real> const* steps;
    std::int32_t levels;

    [[nodiscard]] MULTIDRAFT_HD std::int32_t length() const { return levels; }
    [[nodiscard]] MULTIDRAFT_HD node_id node(std::int32_t level) const { return steps[level].node; }
    [[nodiscard]] MULTIDRAFT_HD token_id token(std::int32_t level) const { return drafts.tree.tokens[node(level)]; }
    [[nodiscard]] MULTIDRAFT_HD Real weight(std::int32_t level) const { return steps[level].weight; }
    [[nodiscard]] MULTIDRAFT_HD Target const& target() const { return target_rows; }
    [[nodiscard]] MULTIDRAFT_HD auto conditional(G const& g, std::int32_t level) const {
        node_id const v = node(level);
        return steps[level].numbers->law(target_rows(g, v), draft_rows(g, v),
                                         candidates_of(drafts, present_children<G>(drafts.tree, v), v));
    }
};

/// Verifies a selected path as a block and writes its accepted part.
template <group G, draft_law Law, class Target, class Draft, class Real, draw_source Source>
[[nodiscard]] MULTIDRAFT_HD verdict finish_picked(G const& g, drafted<Law> const& drafts, Target const& target,
                                                  Draft const& draft, picked_step<Real> const* steps,
                                                  std::int32_t levels, Source& source, std::int32_t position,
                                                  span<node_id> path) {
    picked_steps<G, Law, Target, Draft, Real> const picked{drafts, target, draft, steps, levels};
    return verify_block(g, drafts.tree, picked, source, position, path);
}

}  // namespace detail
}  // namespace MULTIDRAFT_NAMESPACE::verify
