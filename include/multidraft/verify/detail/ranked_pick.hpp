// The child selected at a node by ranked block verification, and its exact law.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/fma.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/detail/block_weights.hpp"
#include "multidraft/verify/detail/draft_units.hpp"
#include "multidraft/verify/detail/rank_table.hpp"
#include "multidraft/verify/verdict.hpp"

namespace MULTIDRAFT_NAMESPACE::verify::detail {

/// m, the law of the selected child: the candidate, if it is kept. Otherwise one of the certain tokens is selected with
/// probability f, in proportion to p, and the candidate with probability 1 - f.
///
/// Outside the certain tokens it is q times a function of p/q that is linear between grid points, as the candidate's
/// law is: the kept part of that law, plus 1 - f times the rest. On the certain tokens it is p R f / p(certain), where
/// R is the probability that the candidate is refused, 1 if there is none.
template <distribution P, distribution Q>
struct picked_law {
    using real = probability_of<P>;
    static constexpr bool expensive = !lists_candidates<Q>;
    law_of_draws<P, Q> draws;
    certain_tokens<Q> certain;
    real certain_factor;  ///< R f / p(certain)

    [[nodiscard]] MULTIDRAFT_HD index_t size() const { return draws.size(); }
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD real operator()(index_t i) const {
        return certain.holds(i) ? fp::mul(draws.where.p(i), certain_factor) : draws(i);
    }
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD real weight(index_t i) const { return (*this)(i); }
    [[nodiscard]] MULTIDRAFT_HD bool is_elsewhere(index_t begin, index_t end) const requires(!lists_candidates<Q>) {
        return !certain.any_in(begin, end);
    }
    [[nodiscard]] MULTIDRAFT_HD law_of_draws<P, Q> elsewhere() const requires(!lists_candidates<Q>) { return draws; }
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD picked_law with(Q const& q) const {
        return {draws.with(q), certain.with(q), certain_factor};
    }
    [[nodiscard]] MULTIDRAFT_HD picked_law in_chunk(index_t begin, index_t end) const requires lists_candidates<Q> {
        return with(draws.where.q.in_chunk(begin, end));
    }
    [[nodiscard]] MULTIDRAFT_HD bool is_empty_run(index_t begin) const requires lists_candidates<Q> {
        index_t const end = begin + run_length;
        return !any_candidate_in(draws.where.q, begin, end) && !certain.any_in(begin, end);
    }
    template <class Body>
    MULTIDRAFT_INLINE MULTIDRAFT_HD void on_run(index_t begin, index_t end,
                                                Body const& body) const requires lists_candidates<Q> {
        on_run_of_candidates(*this, draws.where.q, certain.tokens(), begin, end, body);
    }
};

/// f, the probability that a certain token is selected instead of a refused candidate: such that the certain tokens get
/// their full mass under the target if R is large enough. The laws are exact for any f in [0, 1].
[[nodiscard]] MULTIDRAFT_HD inline double passed_on(double refused, double certain_mass) {
    if (!(refused > 1e-15)) return 0;
    return certain_mass < refused ? certain_mass / refused : 1.0;
}

/// The data from which a node's laws are reconstructed: a few numbers and the densities at the grid points.
template <class Real>
struct pick_numbers {
    Real left;            ///< see `ratio_of`
    Real pooled;          ///< see `ratio_of`
    Real inverse;         ///< see `law_of_draws`; 0 where nothing is drawn
    Real passed;          ///< f: the probability that a certain token is selected once the candidate is refused
    Real certain_factor;  ///< R f / p(certain)
    grid_density<Real> density[rank_table::grid_points];  ///< of the selected child's law outside the certain tokens

    /// Sets the numbers of a node with draws, from its rows and its sets.
    template <class Rows>
    MULTIDRAFT_HD void set(Rows const& rows, rank_table const& table) {
        left = rows.where.left;
        pooled = rows.where.pooled;
        inverse = static_cast<Real>(1 / rows.mass);
        double const refused = rows.children.certain > 0 ? table.refused() : 0.0;
        passed = static_cast<Real>(passed_on(refused, rows.certain_mass));
        auto const f = static_cast<double>(passed);
        certain_factor = rows.certain_mass > 0 ? static_cast<Real>(fp::mul(refused, f) / rows.certain_mass) : Real(0);
        Real here = picked(table, 0, f);
        for (index_t b = 0; b < rank_table::grid_points; ++b) {
            Real const next = picked(table, b + 1 < rank_table::grid_points ? b + 1 : b, f);
            density[b].set(here, next);
            here = next;
        }
    }

    /// The ratios of tokens and their places on the grid; q is the draft's row itself.
    template <distribution P, distribution Q>
    [[nodiscard]] MULTIDRAFT_HD auto where(P const& p, Q const& q) const {
        return ratio_of<P, in_units_of<Q, Real>>{p, in_units<Real>(q), left, pooled};
    }
    /// The law of the selected child for these rows and children.
    template <distribution P, distribution Q>
    [[nodiscard]] MULTIDRAFT_HD auto law(P const& p, Q const& q, candidate_list children) const {
        using row = in_units_of<Q, Real>;
        return picked_law<P, row>{
            {where(p, q), density, inverse}, {in_units<Real>(q), children.certain_tokens()}, certain_factor};
    }

private:
    [[nodiscard]] MULTIDRAFT_HD static Real picked(rank_table const& table, index_t grid_point, double f) {
        double const all = table.density[grid_point];
        if (!(f > 0)) return static_cast<Real>(all);
        double const kept = table.kept(grid_point);
        return static_cast<Real>(fp::fma(all - kept, 1 - f, kept));
    }
};

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

/// Computes the sets of a node for a curve, and the numbers of its laws; `table` and `numbers` are memory that all
/// lanes see. One counting pass (two in double); none where all are certain. The operations of the group do not depend
/// on the curve.
template <group G, distribution P, distribution Q, class Curve, class Real>
[[nodiscard]] MULTIDRAFT_HD made make_pick(G const& g, P const& p, Q const& q, candidate_list children,
                                           Curve const& curve, rank_table& table, pick_numbers<Real>& numbers) {
    if (children.certain < 0 || !may_be_drawn(q, children)) return made::nothing;
    g.barrier();  // every lane has finished with the old content of `table`
    if (children.draws() == 0) return pick_certain(g, p, children, numbers);
    ranked_rows<P, in_units_of<Q, Real>> rows(g, p, in_units<Real>(q), children);
    if (rows.certain_mass != rows.certain_mass) return made::nothing;
    if (!rows.template make_sets<true>(g, curve, table)) return made::nothing;
    if (g.leader()) numbers.set(rows, table);
    g.barrier();
    return made::sets;
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

}  // namespace MULTIDRAFT_NAMESPACE::verify::detail
