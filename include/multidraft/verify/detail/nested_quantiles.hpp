// Quantiles of the nodes of a tree, and what a pick tells about them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "multidraft/core/config.hpp"
#include "multidraft/core/fma.hpp"
#include "multidraft/core/span.hpp"
#include "multidraft/random/draw_site.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/detail/left_curtain_coupling.hpp"
#include "multidraft/verify/detail/rank_table.hpp"

namespace MULTIDRAFT_NAMESPACE::verify {

/// A node as nested ranked block verification keeps it: what it is to the tree, where its ranks lie among its siblings,
/// what is known of its own quantile, and its conditional distribution function, the law of the quantile given that the
/// node was picked.
///
/// The quantile u is uniform before anything is known. A draw of rank set R has its rank at the point u |R| along R.
/// Where u comes from a subtree that has not been looked at, or not all of it, bounds of u are known: ranks rise with
/// it, so that bounds often answer what is asked. The conditional distribution function is the distribution function of
/// u given the pick, a concave map of [0, 1]:
///
/// - `identity`: u had no say, as at the root;
/// - `certain`: a certain token, picked when u was at most `limit`: min(v / limit, 1);
/// - `candidate`: a draw. Its first quantiles, up to a part `limit` of the mass that the parent's curve G has on R,
///   were kept; those beyond were picked with the chance `stays`.
struct nested_node {
    /// Sets of more pieces than this are cut to one of them by Bernoulli draws; any such choice leaves the law of the
    /// pick as it is, and costs a little of what quantiles can tell.
    static constexpr std::int32_t most_pieces = 12;

    /// What is known of a node.
    enum class standing : std::int32_t {
        leaf,    ///< no child is picked of it: it has none, or the target never says its token, or theirs
        closed,  ///< with children, and its rows have not been looked at
        inner,   ///< with sets, and so are its children's ranks
    };
    /// Which of the three forms above its conditional distribution function has.
    enum class conditional_cdf : std::int32_t { identity, certain, candidate };

    standing is;
    conditional_cdf kind;
    std::int32_t count;        ///< pieces of the node's rank set
    node_id first;             ///< of its own children
    index_t certain;           ///< certain ones among them, the first
    index_t draws;             ///< independent draws, the others
    std::int32_t informative;  ///< whether its quantile may say how its subtree turned out
    double least;              ///< its quantile is not smaller
    double most;               ///< nor larger
    double limit;
    double stays;
    double length;    ///< of the rank set
    double mass;      ///< of the parent's curve on the rank set
    double per_mass;  ///< 1 / mass
    double per_pick;  ///< 1 / the chance that a quantile, drawn by its mass, is picked
    rank_piece pieces[most_pieces];
    double below[most_pieces];   ///< the parent's curve where a piece begins
    double before[most_pieces];  ///< its mass on the pieces before

    /// Whether its quantile is that of the best of its draws: else a number of its own.
    [[nodiscard]] MULTIDRAFT_HD bool tells() const { return is != standing::leaf && informative != 0 && draws > 0; }

    /// The point at v |R| along R, and the piece it lies in. Does not fall when v rises, rounding included.
    [[nodiscard]] MULTIDRAFT_HD double rank(double v, std::int32_t& piece) const {
        double need = fp::mul(v, length);
        std::int32_t k = 0;
        for (; k + 1 < count; ++k) {
            double const here = pieces[k].end - pieces[k].begin;
            if (need <= here) break;
            need -= here;
        }
        piece = k;
        double const at = pieces[k].begin + need;
        return at < pieces[k].end ? at : pieces[k].end;
    }

    /// The part of the mass that lies before a point of a piece, from the parent's curve there.
    [[nodiscard]] MULTIDRAFT_HD double part_before(std::int32_t piece, double curve) const {
        double const part = fp::mul(before[piece] + (curve - below[piece]), per_mass);
        return part < 0 ? 0.0 : (part < 1 ? part : 1.0);
    }

    /// The value of the conditional distribution function for a part of the mass.
    [[nodiscard]] MULTIDRAFT_HD double conditional(double part) const {
        double const beyond = part > limit ? part - limit : 0.0;
        double const result = fp::mul(fp::fma(beyond, stays, part < limit ? part : limit), per_pick);
        return result < 1 ? result : 1.0;
    }
};

/// G of a node: the probability that the best rank among its draws lies below t, given that the node was picked.
///
/// 1 - (1 - t)^j under the node's conditional distribution function, which asks the parent's G at one point, and so on
/// up: O(depth) an evaluation.
struct conditional_rank_cdf {
    /// Levels below the root that quantiles reach up from; nodes farther down draw theirs, as leaves do.
    static constexpr std::int32_t most_levels = 32;

    nested_node const* nodes;
    span<node_id const> parents;
    node_id node;

    /// Its value at t in [0, 1].
    [[nodiscard]] MULTIDRAFT_HD double operator()(double t) const {
        node_id way[most_levels];
        std::int32_t pieces[most_levels];
        std::int32_t levels = 0;
        node_id v = node;
        double x = best_rank_cdf{nodes[v].draws}(t);
        while (nodes[v].kind == nested_node::conditional_cdf::candidate && levels < most_levels) {
            double const rank = nodes[v].rank(x, pieces[levels]);
            way[levels] = v;
            ++levels;
            v = tree_view{parents, {}}.parent(v);
            x = best_rank_cdf{nodes[v].draws}(rank);
        }
        if (nodes[v].kind == nested_node::conditional_cdf::certain) x = x < nodes[v].limit ? x / nodes[v].limit : 1.0;
        while (levels > 0) {
            --levels;
            nested_node const& below = nodes[way[levels]];
            x = below.conditional(below.part_before(pieces[levels], x));
        }
        return x;
    }
};

}  // namespace MULTIDRAFT_NAMESPACE::verify
