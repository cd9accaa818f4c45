// Quantiles of the nodes of a tree, and their law given that a node was selected.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "multidraft/base/config.hpp"
#include "multidraft/base/fma.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/detail/left_curtain_coupling.hpp"
#include "multidraft/verify/detail/rank_table.hpp"

namespace MULTIDRAFT_NAMESPACE::verify::detail {

/// The state of a node in nested ranked block verification: its kind, the position of its ranks among its siblings, and
/// bounds of its own quantile. Also its conditional distribution function, the law of the quantile given that the node
/// was selected.
///
/// The quantile u is uniform a priori. A draw with rank set R has its rank at the point u |R| along R. If the subtree
/// that determines u has not been read, or only in part, bounds of u are known. Ranks increase with u, so bounds often
/// suffice. The conditional distribution function is that of u given the selection, a concave map of [0, 1]:
///
/// - `identity`: the selection did not depend on u, as at the root;
/// - `certain`: a certain token, selected when u was at most `limit`: min(v / limit, 1);
/// - `candidate`: a draw. Quantiles up to the fraction `limit` of the mass of the parent's curve G on R were kept;
///   those beyond were selected with probability `stays`.
struct nested_node {
    /// Sets of more pieces than this are reduced to one of them by Bernoulli draws. Any such choice keeps the law of
    /// the selection and loses a little of the information in quantiles.
    static constexpr std::int32_t most_pieces = 12;

    /// The state of a node.
    enum class node_state : std::int32_t {
        leaf,    ///< no child is selected: it has none, or its token or those of its children have no mass under the
                 ///< target
        closed,  ///< has children, but its rows have not been read
        inner,   ///< its sets and its children's ranks are known
    };
    /// Which of the three forms above the conditional distribution function has.
    enum class conditional_cdf : std::int32_t { identity, certain, candidate };

    /// The ranks at which its parent selects it, and the parent's curve G there.
    struct rank_set {
        double length;
        double mass;      ///< of the curve on the set
        double per_mass;  ///< 1 / mass
        std::int32_t count;
        rank_piece pieces[most_pieces];
        double below[most_pieces];   ///< the curve where a piece begins
        double before[most_pieces];  ///< its mass on the preceding pieces
    };
    /// The law of its quantile given that it was selected.
    struct selection {
        double limit;
        double stays;
        double per_pick;  ///< 1 / the probability that a quantile, drawn by its mass, is selected
        conditional_cdf kind;
    };

    node_state is;
    node_id first;             ///< its first child
    index_t certain;           ///< number of certain children, which come first
    index_t draws;             ///< number of independent draws among the children, which follow
    std::int32_t informative;  ///< whether its quantile may depend on the draws of its subtree
    double least;              ///< lower bound of its quantile
    double most;               ///< upper bound of its quantile
    selection selected;
    rank_set ranks;

    /// Whether its quantile is that of the best of its draws; otherwise it is a separate uniform.
    [[nodiscard]] MULTIDRAFT_HD bool depends_on_subtree() const {
        return is != node_state::leaf && informative != 0 && draws > 0;
    }

    /// The point at v |R| along R, and the piece it lies in. Nondecreasing in v, rounding included.
    [[nodiscard]] MULTIDRAFT_HD double rank(double v, std::int32_t& piece) const {
        double need = fp::mul(v, ranks.length);
        std::int32_t k = 0;
        for (; k + 1 < ranks.count; ++k) {
            double const here = ranks.pieces[k].end - ranks.pieces[k].begin;
            if (need <= here) break;
            need -= here;
        }
        piece = k;
        double const at = ranks.pieces[k].begin + need;
        return at < ranks.pieces[k].end ? at : ranks.pieces[k].end;
    }

    /// The part of the mass that lies before a point of a piece, from the parent's curve there.
    [[nodiscard]] MULTIDRAFT_HD double part_before(std::int32_t piece, double curve) const {
        double const part = fp::mul(ranks.before[piece] + (curve - ranks.below[piece]), ranks.per_mass);
        return part < 0 ? 0.0 : (part < 1 ? part : 1.0);
    }

    /// The value of the conditional distribution function for a part of the mass.
    [[nodiscard]] MULTIDRAFT_HD double conditional(double part) const {
        double const beyond = part > selected.limit ? part - selected.limit : 0.0;
        double const result =
            fp::mul(fp::fma(beyond, selected.stays, part < selected.limit ? part : selected.limit), selected.per_pick);
        return result < 1 ? result : 1.0;
    }
};

/// G of a node: the probability that the best rank among its draws lies below t, given that the node was selected.
///
/// 1 - (1 - t)^j under the node's conditional distribution function, which evaluates the parent's G at one point, and
/// so on up to the root: O(depth).
struct conditional_rank_cdf {
    /// Levels below the root whose nodes have quantiles from their subtrees; deeper nodes draw their own, as leaves do.
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
        while (nodes[v].selected.kind == nested_node::conditional_cdf::candidate && levels < most_levels) {
            double const rank = nodes[v].rank(x, pieces[levels]);
            way[levels] = v;
            ++levels;
            v = tree_view{parents, {}}.parent(v);
            x = best_rank_cdf{nodes[v].draws}(rank);
        }
        if (nodes[v].selected.kind == nested_node::conditional_cdf::certain)
            x = x < nodes[v].selected.limit ? x / nodes[v].selected.limit : 1.0;
        while (levels > 0) {
            --levels;
            nested_node const& below = nodes[way[levels]];
            x = below.conditional(below.part_before(pieces[levels], x));
        }
        return x;
    }
};

}  // namespace MULTIDRAFT_NAMESPACE::verify::detail
