// The ranks of the tokens of one node and the exact law of the resulting candidate, from a histogram.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/exp_log.hpp"
#include "multidraft/base/fma.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/group/runs.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/verify/detail/draft_units.hpp"
#include "multidraft/verify/detail/left_curtain_coupling.hpp"
#include "multidraft/verify/detail/ratio_histogram.hpp"
#include "multidraft/verify/verdict.hpp"

namespace MULTIDRAFT_NAMESPACE::verify::detail {

/// Nodes that are selected with less than this probability, given everything before, draw their own quantiles, as
/// leaves do: these do not depend on their subtrees. The loss of acceptance is negligible, and conditional distribution
/// functions do not become too steep for floating-point numbers.
inline constexpr double least_informative = 0x1p-20;

/// The least mass of the target on the children of a node, if all are certain, for one of them to be selected; with
/// less mass the node is treated as a leaf.
inline constexpr double least_certain = 0x1p-100;

/// m~ / (q / left) at a grid point, and its increase to the next one. Two floats share one word, so that a vector of
/// tokens needs one gather load instead of two; these loads dominate the cost of the law.
template <class Real>
class grid_density {
public:
    /// The density here, and at the next grid point.
    MULTIDRAFT_HD void set(Real here, Real next) noexcept {
        Real const rise = next - here;
        if constexpr (sizeof(Real) == 4) {
            auto const low = static_cast<std::uint32_t>(multidraft::detail::bits_of(here));
            auto const high = static_cast<std::uint32_t>(multidraft::detail::bits_of(rise));
            both_ = std::uint64_t{high} << 32 | low;
        } else {
            both_ = {here, rise};
        }
    }
    /// The density interpolated towards the next grid point.
    [[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE Real operator()(float share) const noexcept {
        if constexpr (sizeof(Real) == 4)
            return fp::fma(share, multidraft::detail::float_of(static_cast<std::int32_t>(both_ >> 32)),
                           multidraft::detail::float_of(static_cast<std::int32_t>(both_)));
        else
            return fp::fma(static_cast<Real>(share), both_.rise, both_.here);
    }

private:
    struct pair {
        Real here;
        Real rise;
    };
    std::conditional_t<sizeof(Real) == 4, std::uint64_t, pair> both_{};
};

/// Whether q has a candidate in [begin, end). O(log candidates).
template <lists_candidates Q>
[[nodiscard]] MULTIDRAFT_HD bool any_candidate_in(Q const& q, index_t begin, index_t end) {
    span<token_id const> const tokens = q.candidates();
    std::size_t const k = multidraft::detail::entries_below(tokens, begin);
    return k < tokens.size() && tokens[k] < end;
}

/// Calls `body` with a law that has mass at the candidates of q and at some other tokens alone, written out for a run.
template <class Law, lists_candidates Q, class Body>
MULTIDRAFT_HD MULTIDRAFT_INLINE void on_run_of_candidates(Law const& law, Q const& q, span<token_id const> others,
                                                          index_t begin, index_t end, Body const& body) {
    using real = probability_of<Law>;
    real values[static_cast<std::size_t>(run_length)] = {};
    span<token_id const> const tokens = q.candidates();
    for (std::size_t k = multidraft::detail::entries_below(tokens, begin); k < tokens.size() && tokens[k] < end; ++k)
        values[tokens[k] - begin] = law.with(q.only(static_cast<index_t>(k)))(tokens[k]);
    for (token_id const x : others)
        if (x >= begin && x < end) values[x - begin] = law(x);
    body(multidraft::detail::probabilities_on_run<run_values<real>>{{values, begin, law.size()}});
}

/// q times a function of p/q that is linear between grid points: the law of the candidate outside the certain tokens.
template <distribution P, distribution Q>
struct law_of_draws {
    using real = probability_of<P>;
    /// To evaluate: worth a test whether it is needed.
    static constexpr bool expensive = !lists_candidates<Q>;
    ratio_of<P, Q> where;
    grid_density<real> const* density;  ///< at the grid points
    real inverse;                       ///< 1 / the mass of q outside the certain tokens

    [[nodiscard]] MULTIDRAFT_HD index_t size() const { return where.q.size(); }
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD real operator()(index_t i) const {
        auto const at = where(i);
        real const qi = fp::mul(static_cast<real>(where.q(i)), inverse);
        return fp::mul(qi, density[at.grid_point](at.share));
    }
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD real weight(index_t i) const { return (*this)(i); }
    /// The same with another form of q.
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD law_of_draws with(Q const& q) const {
        return {where.with(q), density, inverse};
    }
};

/// m~, the law of the candidate. A distribution, normalised up to rounding.
template <distribution P, distribution Q>
struct candidate_law {
    using real = probability_of<P>;
    static constexpr bool expensive = !lists_candidates<Q>;
    law_of_draws<P, Q> draws;
    certain_tokens<Q> certain;

    [[nodiscard]] MULTIDRAFT_HD index_t size() const { return draws.size(); }
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD real operator()(index_t i) const {
        return certain.holds(i) ? real(0) : draws(i);
    }
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD real weight(index_t i) const { return (*this)(i); }
    [[nodiscard]] MULTIDRAFT_HD bool is_elsewhere(index_t begin, index_t end) const requires(!lists_candidates<Q>) {
        return !certain.any_in(begin, end);
    }
    [[nodiscard]] MULTIDRAFT_HD law_of_draws<P, Q> elsewhere() const requires(!lists_candidates<Q>) { return draws; }
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD candidate_law with(Q const& q) const {
        return {draws.with(q), certain.with(q)};
    }
    [[nodiscard]] MULTIDRAFT_HD candidate_law in_chunk(index_t begin, index_t end) const requires lists_candidates<Q> {
        return with(draws.where.q.in_chunk(begin, end));
    }
    [[nodiscard]] MULTIDRAFT_HD bool is_empty_run(index_t begin) const requires lists_candidates<Q> {
        return !any_candidate_in(draws.where.q, begin, begin + run_length);
    }
    template <class Body>
    MULTIDRAFT_INLINE MULTIDRAFT_HD void on_run(index_t begin, index_t end,
                                                Body const& body) const requires lists_candidates<Q> {
        on_run_of_candidates(*this, draws.where.q, {}, begin, end, body);
    }
};

/// The sets of ranks at the grid points of one node: plain memory, of one lane or shared by all.
///
/// A drawn token goes to the grid point below its ratio or to the one above, by a Bernoulli draw; its rank is uniform
/// on the grid point's set. The sets divide [0, 1] with the grid points' masses of q as lengths, so the ranks of the
/// draws are independent and uniform. The draw with the smallest rank, the candidate, has exactly the law
/// `candidate_law`, whatever the sets are. They are chosen to maximise the acceptance of the candidate (`build`).
struct rank_table {
    static constexpr index_t grid_points = ratio_grid::count;

    double length[grid_points];   ///< the mass of q at a grid point, as a fraction of the total
    double density[grid_points];  ///< the mass of G on the grid point's set, over its length
    std::int32_t first[grid_points];
    std::int32_t count[grid_points];
    rank_piece pieces[3 * grid_points + 3];
    rank_gap gaps[grid_points + 1];

    /// Computes the sets for a curve G, concave from 0 to 1. `length` is given and sums to 1; `certain` is the target's
    /// mass on the certain tokens.
    ///
    /// The wanted law of the candidate is the one with the highest acceptance rate ([Ranked] 3). H is the set of low
    /// p/q that minimises certain + p(H) - Q(H), with Q(H) = 1 - G(1 - q(H)). It gets the mass Q(H), as max(p, c q);
    /// the rest gets min(p, c' q). The sets are then the left-curtain coupling of q and G in order of falling m/q.
    /// O(grid points) evaluations of G.
    template <class Curve>
    MULTIDRAFT_HD void build(Curve const& curve, double certain) {
        // H = the grid points below `border`.
        double p_inside = certain;
        double p_low = 0;
        double q_inside = 0;
        double least = 0;
        double covered = 0;
        index_t border = 0;
        index_t highest = 0;
        for (index_t b = 0; b < grid_points; ++b)
            if (length[b] > 0) highest = b;
        for (index_t b = 0; b <= highest; ++b) {
            if (!(length[b] > 0)) continue;
            q_inside += length[b];
            p_inside = fp::fma(ratio_grid::ratio(b), length[b], p_inside);
            double const inside = b == highest || q_inside >= 1 ? 1.0 : 1 - curve(1 - q_inside);
            if (p_inside - inside < least) {
                least = p_inside - inside;
                border = b + 1;
                covered = inside;
                p_low = p_inside - certain;
            }
        }
        bool const everything = border == 0 && certain > 0;  // every candidate can be accepted
        if (everything) {
            border = highest + 1;
            covered = 1;
            p_low = p_inside - certain;
        }
        // On H: max(p, c q), from the lowest grid point up.
        double floor = 0;
        index_t lifted = 0;  // grid points below it share the floor
        if (p_low < covered) {
            double above = p_low;
            double mass = 0;
            for (index_t b = 0; b < border; ++b) {
                if (!(length[b] > 0)) continue;
                if (mass > 0 && floor <= ratio_grid::ratio(b)) break;
                above = fp::fma(-ratio_grid::ratio(b), length[b], above);
                mass += length[b];
                floor = (covered - (above > 0 ? above : 0.0)) / mass;
                lifted = b + 1;
            }
        }
        // Above it: min(p, c q), from the highest grid point down; the last grid point represents all larger ratios
        // too.
        double cap = 0;
        index_t capped = highest + 1;  // grid points from it on share the cap
        {
            double below = 0;
            for (index_t b = border; b <= highest; ++b) below = fp::fma(ratio_grid::ratio(b), length[b], below);
            double mass = 0;
            for (index_t b = highest; b >= border; --b) {
                if (!(length[b] > 0)) continue;
                if (mass > 0 && cap >= ratio_grid::ratio(b)) break;
                below = fp::fma(-ratio_grid::ratio(b), length[b], below);
                mass += length[b];
                cap = (1 - covered - (below > 0 ? below : 0.0)) / mass;
                cap = cap > 0 ? cap : 0.0;
                capped = b;
            }
        }
        left_curtain_coupling<Curve> coupling(curve, pieces, gaps);
        for (index_t b = 0; b < grid_points; ++b) {
            density[b] = 0;
            count[b] = 0;
            first[b] = 0;
        }
        take(coupling, capped, highest + 1, cap);
        for (index_t b = capped - 1; b >= lifted; --b)
            if (length[b] > 0) take(coupling, b, b + 1, ratio_grid::ratio(b));
        take(coupling, 0, lifted, floor);
    }

    /// The kept part of the candidate's law at a grid point, as a density like `density`: the target's, or all of it
    /// where that is at most the target's up to rounding, and at the last grid point, to which all larger ratios
    /// belong.
    [[nodiscard]] MULTIDRAFT_HD double kept(index_t grid_point) const {
        double const all = density[grid_point];
        double const of_target = ratio_grid::ratio(grid_point);
        return grid_point + 1 < grid_points && all > fp::mul(of_target, 1 + 0x1p-16) ? of_target : all;
    }
    /// The probability with which a candidate at this place is kept: a quotient of functions that are linear between
    /// grid points. So the mass of the kept part follows from the grid points, without a sum over the row.
    [[nodiscard]] MULTIDRAFT_HD double kept_part(ratio_grid::place at) const {
        index_t const next = at.grid_point + 1 < grid_points ? at.grid_point + 1 : at.grid_point;
        auto const share = static_cast<double>(at.share);
        double const here = kept(at.grid_point);
        double const part = fp::fma(share, kept(next) - here, here);
        double const all = fp::fma(share, density[next] - density[at.grid_point], density[at.grid_point]);
        return part < all ? part / all : 1.0;
    }
    /// R, the probability that the candidate is not kept.
    [[nodiscard]] MULTIDRAFT_HD double refused() const {
        double all = 0;
        for (index_t b = 0; b < grid_points; ++b) all = fp::fma(length[b], kept(b), all);
        return all < 1 ? 1 - all : 0.0;
    }

private:
    /// Gives the grid points from `begin` to `end` one common set, whose mass of G is `ratio` times their length.
    template <class Curve>
    MULTIDRAFT_HD void take(left_curtain_coupling<Curve>& coupling, index_t begin, index_t end, double ratio) {
        double mass = 0;
        for (index_t b = begin; b < end; ++b) mass += length[b];
        if (!(mass > 0)) return;
        std::int32_t const from = coupling.pieces();
        double const got = coupling.take(mass, fp::mul(ratio, mass)) / mass;
        for (index_t b = begin; b < end; ++b) {
            density[b] = got;
            first[b] = from;
            count[b] = coupling.pieces() - from;
        }
    }
};

/// Addresses of the draws at one node that determine ranks: child k has those from `rank_index(k)` to `rank_index(k +
/// 1)`, and index 0 is the node's own quantile.
[[nodiscard]] MULTIDRAFT_HD constexpr index_t rank_index(index_t child) noexcept { return 1 + child * 1024; }
static_assert(3 * rank_table::grid_points + 3 < 1000);

/// Whether the candidates of a node are possible: certain tokens differ, and every draw is another token, to which q
/// gives mass. O(n^2) for n candidates.
template <distribution Q>
[[nodiscard]] MULTIDRAFT_HD bool may_be_drawn(Q const& q, candidate_list candidates) {
    if (!is_certain_count(candidates.tokens, candidates.certain)) return false;
    for (index_t k = candidates.certain; k < candidates.count(); ++k)
        if (!(q(candidates[k]) > 0)) return false;
    return true;
}

/// One node with draws among its children: its tokens' grid points, the certain tokens, and the data of the candidate's
/// law. q is a row in units (`in_units`).
template <distribution P, distribution Q>
struct ranked_rows {
    using real = probability_of<P>;
    ratio_of<P, Q> where;
    candidate_list children;
    double certain_mass = 0;  ///< of the target
    double mass = 0;          ///< of q outside the certain tokens, in units; 0 when the rows are not distributions

    /// One pass over q if little of it is left outside the certain tokens, else none.
    template <group G>
    MULTIDRAFT_HD ranked_rows(G const& g, P const& p, Q const& q, candidate_list candidates)
        : where{p, q, units_in_1<real>}, children(candidates) {
        real difference = units_in_1<real>;
        for (token_id const x : children.certain_tokens()) {
            difference -= static_cast<real>(q(x));
            certain_mass += static_cast<double>(p(x));
        }
        if (children.certain > 0) where.left = mass_left(g, q, children.certain_tokens(), difference);
        where.scale = fp::div(real(1), where.left);
    }

    /// Computes the histogram and the sets for the curve; the leader writes them where they are shared. False when q
    /// has no mass outside the certain tokens.
    template <bool Shared, group G, class Curve>
    [[nodiscard]] MULTIDRAFT_HD bool make_sets(G const& g, Curve const& curve, rank_table& table) {
        if (!(where.left > 0)) return false;
        double const total = ratio_histogram<Shared>(g, where, children.certain_tokens(), table.length);
        if (!(total > 0)) return false;
        mass = total * static_cast<double>(where.left);
        if (!Shared || g.leader()) {
            for (index_t b = 0; b < rank_table::grid_points; ++b) table.length[b] = table.length[b] / total;
            table.build(curve, certain_mass);
        }
        return true;
    }

    /// The same, and the densities in the rows' type, one for each grid point.
    template <bool Shared, group G, class Curve>
    [[nodiscard]] MULTIDRAFT_HD bool build(G const& g, Curve const& curve, rank_table& table,
                                           grid_density<real>* density) {
        if (!make_sets<Shared>(g, curve, table)) return false;
        if (!Shared || g.leader())
            for (index_t b = 0; b < rank_table::grid_points; ++b)
                density[b].set(static_cast<real>(table.density[b]),
                               static_cast<real>(table.density[b + 1 < rank_table::grid_points ? b + 1 : b]));
        if constexpr (Shared) g.barrier();
        return true;
    }

    /// The law of the candidate, by the density of its ratio.
    [[nodiscard]] MULTIDRAFT_HD candidate_law<P, Q> law(grid_density<real> const* density) const {
        return {{where, density, static_cast<real>(1 / mass)}, {where.q, children.certain_tokens()}};
    }
};

/// The grid point that a drawn child, the token x, belongs to: one Bernoulli draw.
template <distribution P, distribution Q, draw_source Source>
[[nodiscard]] MULTIDRAFT_HD index_t grid_point_of(ratio_of<P, Q> const& where, token_id x, index_t child,
                                                  Source& source, draw_site at) {
    auto const found = where(x);
    return found.share > 0 && source.bernoulli(at(purpose::rank, rank_index(child)), found.share, 1.0F)
               ? found.grid_point + 1
               : found.grid_point;
}

/// The piece of a grid point's set that contains a fresh rank, with probability proportional to length. `none` for a
/// grid point without mass, to which a draw belongs only by rounding.
template <draw_source Source>
[[nodiscard]] MULTIDRAFT_HD std::int32_t piece_of(rank_table const& table, index_t grid_point, index_t child,
                                                  Source& source, draw_site at) {
    std::int32_t const first = table.first[grid_point];
    std::int32_t const count = table.count[grid_point];
    if (count == 0) return none;
    double left = 0;
    for (std::int32_t k = 0; k < count; ++k) left += table.pieces[first + k].end - table.pieces[first + k].begin;
    for (std::int32_t k = 0; k + 1 < count; ++k) {
        double const here = table.pieces[first + k].end - table.pieces[first + k].begin;
        if (source.bernoulli(at(purpose::rank, rank_index(child) + 1 + k), here, left)) return first + k;
        left -= here;
    }
    return first + count - 1;
}

/// The draw with the smallest rank, without drawing the ranks: pieces of different sets do not overlap, and two ranks
/// in one piece are equally likely in either order. Bernoulli draws only, so that enumeration can prove every branch.
template <distribution P, distribution Q, draw_source Source>
[[nodiscard]] MULTIDRAFT_HD index_t best_ranked(rank_table const& table, ratio_of<P, Q> const& where,
                                                candidate_list children, Source& source, draw_site at) {
    index_t best = children.certain;
    double least = 2;
    double equal = 0;
    for (index_t k = children.certain; k < children.count(); ++k) {
        std::int32_t const piece = piece_of(table, grid_point_of(where, children[k], k, source, at), k, source, at);
        double const begin = piece == none ? 1.5 : table.pieces[piece].begin;
        if (begin < least) {
            least = begin;
            best = k;
            equal = 1;
        } else if (begin == least) {
            equal += 1;
            if (source.bernoulli(at(purpose::rank, rank_index(k) + 1000), 1.0, equal)) best = k;
        }
    }
    return best;
}

}  // namespace MULTIDRAFT_NAMESPACE::verify::detail
