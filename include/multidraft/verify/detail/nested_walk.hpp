// The selection step of nested ranked block verification, which computes sets and quantiles only for the nodes that it
// needs.
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
#include "multidraft/verify/detail/checks.hpp"
#include "multidraft/verify/detail/nested_quantiles.hpp"
#include "multidraft/verify/detail/rank_table.hpp"
#include "multidraft/verify/detail/ranked_pick.hpp"
#include "multidraft/verify/verdict.hpp"
#include "multidraft/verify/verifier.hpp"

namespace MULTIDRAFT_NAMESPACE::verify::detail {

/// The data of nested ranked block verification, in the caller's scratch.
template <class Real>
struct nested_memory {
    rank_table* table;            ///< the sets of the node that is being opened
    nested_node* nodes;           ///< one per node
    pick_numbers<Real>* numbers;  ///< of the law of each node's selected child
    picked_step<Real>* steps;     ///< one per level

    [[nodiscard]] MULTIDRAFT_HD static constexpr std::size_t bytes(node_id nodes, std::int32_t depth) {
        return whole_16(sizeof(rank_table)) +
               static_cast<std::size_t>(nodes) *
                   (whole_16(sizeof(nested_node)) + whole_16(sizeof(pick_numbers<double>))) +
               (static_cast<std::size_t>(depth) + 1) * sizeof(picked_step<double>) + 16;
    }

    MULTIDRAFT_HD nested_memory(std::byte* scratch, node_id size) {
        auto const count = static_cast<std::size_t>(size);
        table = reinterpret_cast<rank_table*>(scratch);
        scratch += whole_16(sizeof(rank_table));
        nodes = reinterpret_cast<nested_node*>(scratch);
        scratch += whole_16(count * sizeof(nested_node));
        numbers = reinterpret_cast<pick_numbers<Real>*>(scratch);
        scratch += count * whole_16(sizeof(pick_numbers<double>));
        steps = reinterpret_cast<picked_step<Real>*>(scratch);
    }
};

/// One walk down a tree, from the root to a node where no child is selected.
///
/// A node is *opened* when its sets are needed, after its parent: one histogram over its rows, its sets under the
/// curves above it, the ranks of its children. Which of several draws is the best, and whether it is kept, is decided
/// from bounds of their quantiles. Where bounds do not decide, the node that they depend on is opened. The selection is
/// the same as with the quantiles of all nodes, but most nodes stay closed: ranks of different tokens lie in different
/// sets, and a certain child's quantile does not matter while candidates are kept.
///
/// Every lane makes the walk; only the leader writes to the nodes.
template <group G, draft_law Law, row_source<G> Target, row_source<G> Draft, draw_source Source>
class nested_walk {
public:
    using real = probability_of<std::decay_t<std::invoke_result_t<Target const&, G const&, node_id>>>;

    MULTIDRAFT_HD nested_walk(G const& g, drafted<Law> const& drafts, Target const& target, Draft const& draft,
                              Source& source, std::int32_t position, nested_memory<real> const& memory)
        : g_(g),
          drafts_(drafts),
          target_(target),
          draft_(draft),
          source_(source),
          position_(position),
          memory_(memory),
          nodes_(memory.nodes) {}

    /// Selects a path and writes its steps; returns the number of its levels, or `none` where a row is not a
    /// distribution.
    [[nodiscard]] MULTIDRAFT_HD std::int32_t pick_path() {
        if (g_.leader()) start(0, true);
        if (g_.leader()) memory_.steps[0] = {0, 1, memory_.numbers};
        g_.barrier();
        real w = 1;
        node_id node = 0;
        std::int32_t level = 0;
        while (w > 0) {
            if (nodes_[node].is == nested_node::node_state::closed && !open(node)) return none;
            if (nodes_[node].is != nested_node::node_state::inner) break;
            node_id const next = pick_child(node);
            if (next == none) return none;
            token_id const x = token_of(next);
            auto const p = target_(g_, node);
            auto const q = draft_(g_, node);
            w = next_weight(w, static_cast<real>(p(x)), memory_.numbers[node].law(p, q, children_of(node))(x));
            ++level;
            if (g_.leader()) {
                memory_.steps[level - 1].numbers = memory_.numbers + node;
                memory_.steps[level] = {next, w, memory_.numbers};
            }
            node = next;
        }
        g_.barrier();
        return level;
    }

private:
    [[nodiscard]] MULTIDRAFT_HD tree_view tree() const { return drafts_.tree; }
    [[nodiscard]] MULTIDRAFT_HD token_id token_of(node_id v) const { return tree().tokens[v]; }
    [[nodiscard]] MULTIDRAFT_HD candidate_list children_of(node_id v) const {
        return candidates_of(drafts_, present_children<G>(tree(), v), v);
    }
    [[nodiscard]] MULTIDRAFT_HD conditional_rank_cdf curve_of(node_id v) const { return {nodes_, tree().parents, v}; }

    // Sets.

    /// Computes the sets of a node and the ranks of its children; false, or throws, if its rows are not distributions.
    [[nodiscard]] MULTIDRAFT_HD bool open(node_id v) {
        auto const children = children_of(v);
        auto const p = target_(g_, v);
        auto const q = draft_(g_, v);
        made const result = make_pick(g_, p, q, children, curve_of(v), *memory_.table, memory_.numbers[v]);
        if (result == made::nothing) {
            refuse_node_on_host(g_, drafts_, target_, draft_, v);
            return false;
        }
        bool const picks = result == made::sets;
        if (picks) place_children(v, p, q, children);
        if (g_.leader()) nodes_[v].is = picks ? nested_node::node_state::inner : nested_node::node_state::leaf;
        g_.barrier();
        return true;
    }

    /// Initialises a node before its rows are read; `reached`: whether the target gives its token mass.
    MULTIDRAFT_HD void start(node_id v, bool reached) {
        nested_node& node = nodes_[v];
        node.is = nested_node::node_state::leaf;
        node.selected.kind = nested_node::conditional_cdf::identity;
        node.selected.limit = 1;
        node.informative = 0;
        node.draws = 0;
        node.certain = 0;
        auto const range = present_children<G>(tree(), v);
        node.first = range.first;
        if (!reached || range.count == 0) return;
        node.is = nested_node::node_state::closed;
        node.certain = certain_of(drafts_, range, v);
        node.draws = range.count - node.certain;
    }

    /// The ranks of the children of a node with sets, and the bounds of their quantiles.
    template <distribution P, distribution Q>
    MULTIDRAFT_HD void place_children(node_id v, P const& p, Q const& q, candidate_list children) {
        node_id const first = nodes_[v].first;
        bool const nests = tree().depth(v) + 1 < conditional_rank_cdf::most_levels;
        double certain_mass = 0;
        for (token_id const x : children.certain_tokens()) certain_mass += static_cast<double>(p(x));
        double before = 0;  // the probability that one of the earlier certain children is selected
        for (index_t k = 0; k < children.count(); ++k) {
            token_id const x = children[k];
            nested_node& child = nodes_[first + k];
            if (g_.leader()) start(first + k, p(x) > 0);
            if (k >= children.certain) {
                place_draw(v, p, q, children, k, nests, child);
            } else {
                double const part = certain_mass > 0 ? static_cast<double>(p(x)) / certain_mass : 0.0;
                double const share = fp::mul(part, static_cast<double>(memory_.numbers[v].passed));
                if (g_.leader()) place_certain(share, 1 - before, nests, child);
                before += share;
            }
            if (g_.leader()) bound(first + k);
        }
    }

    /// Once the candidate and the earlier certain children are refused, a certain child is selected if its quantile is
    /// at most its limit: `share` relative to the probability `left`.
    MULTIDRAFT_HD static void place_certain(double share, double left, bool nests, nested_node& child) {
        double limit = -1;  // never
        if (share > 0) limit = share < left ? share / left : 1.0;
        bool const informative = nests && limit >= least_informative;
        child.informative = informative ? 1 : 0;
        child.selected.kind =
            informative ? nested_node::conditional_cdf::certain : nested_node::conditional_cdf::identity;
        child.selected.limit = limit;
    }

    /// The rank set of the k-th child, a draw, and its conditional distribution function.
    template <distribution P, distribution Q>
    MULTIDRAFT_HD void place_draw(node_id v, P const& p_row, Q const& q_row, candidate_list children, index_t k,
                                  bool nests, nested_node& child) {
        rank_table const& table = *memory_.table;
        pick_numbers<real> const& numbers = memory_.numbers[v];
        draw_site const site{position_, v};
        token_id const x = children[k];
        auto const where = numbers.where(p_row, q_row);
        index_t const grid_point = grid_point_of(where, x, k, source_, site);
        std::int32_t first = table.first[grid_point];
        std::int32_t count = table.count[grid_point];
        if (count > nested_node::most_pieces) {
            first = piece_of(table, grid_point, k, source_, site);
            count = 1;
        }
        double const limit = table.kept_part(where(x));
        if (!g_.leader()) return;
        child.selected.limit = limit;
        child.selected.stays = 1 - static_cast<double>(numbers.passed);
        set_pieces(curve_of(v), table.pieces + first, count, child);
        double const pick = fp::fma(1 - child.selected.limit, child.selected.stays, child.selected.limit);
        bool const picked = child.ranks.mass > 1e-300 && pick >= least_informative;
        child.ranks.per_mass = child.ranks.mass > 1e-300 ? 1 / child.ranks.mass : 0.0;
        child.selected.per_pick = picked ? 1 / pick : 0.0;
        child.informative = picked && nests ? 1 : 0;
        child.selected.kind =
            picked && nests ? nested_node::conditional_cdf::candidate : nested_node::conditional_cdf::identity;
    }

    /// The pieces of a child's rank set, and the mass of its parent's curve on them.
    MULTIDRAFT_HD static void set_pieces(conditional_rank_cdf const& curve, rank_piece const* pieces,
                                         std::int32_t count, nested_node& child) {
        child.ranks.length = 0;
        child.ranks.mass = 0;
        child.ranks.count = count;
        for (std::int32_t i = 0; i < count; ++i) {
            rank_piece const piece = pieces[i];
            child.ranks.pieces[i] = piece;
            child.ranks.below[i] = curve(piece.begin);
            child.ranks.before[i] = child.ranks.mass;
            child.ranks.length += piece.end - piece.begin;
            child.ranks.mass += curve(piece.end) - child.ranks.below[i];
        }
        if (count > 0) return;
        child.ranks.count = 1;  // by rounding: after all others
        child.ranks.pieces[0] = {1, 1};
        child.ranks.below[0] = 1;
        child.ranks.before[0] = 0;
    }

    // Quantiles.

    /// Bounds of the quantile of a node that is not open: a separate uniform, or [0, 1].
    MULTIDRAFT_HD void bound(node_id v) {
        nested_node& node = nodes_[v];
        node.least = 0;
        node.most = 1;
        if (!node.depends_on_subtree())
            node.least = node.most = source_.template uniform<double>(draw_site{position_, v}(purpose::rank, 0));
    }

    /// The same for an open node with draws.
    MULTIDRAFT_HD void bound_by_draws(node_id v) {
        ranked_draws const draws = draws_of(v);
        best_rank_cdf const quantile{nodes_[v].draws};
        nodes_[v].least = quantile(draws.least);
        nodes_[v].most = quantile(draws.most);
    }

    /// The draws of an open node: the one with the smallest lower bound of its rank, bounds of the best rank, and
    /// whether that draw certainly has it.
    struct ranked_draws {
        node_id best;
        double least;
        double most;
        bool decided;
    };

    [[nodiscard]] MULTIDRAFT_HD ranked_draws draws_of(node_id v) const {
        node_id const first = nodes_[v].first + nodes_[v].certain;
        ranked_draws found{none, 2, 2, false};
        double most_of_best = 2;
        double least_before = 2;  // of the draws before the best one
        double least_behind = 2;
        for (node_id child = first; child < first + nodes_[v].draws; ++child) {
            std::int32_t piece = 0;
            double const least = nodes_[child].rank(nodes_[child].least, piece);
            double const most = nodes_[child].rank(nodes_[child].most, piece);
            found.most = most < found.most ? most : found.most;
            if (found.best == none || least < found.least) {
                least_before = found.least;
                least_behind = 2;
                found.best = child;
                found.least = least;
                most_of_best = most;
            } else if (least < least_behind) {
                least_behind = least;
            }
        }
        found.decided = most_of_best < least_before && most_of_best <= least_behind;
        return found;
    }

    /// Opens the node that the quantile of a child of `top` depends on: the one whose known ranks are best.
    [[nodiscard]] MULTIDRAFT_HD bool look_below(node_id top, node_id child) {
        node_id v = child;
        while (nodes_[v].is == nested_node::node_state::inner) v = draws_of(v).best;
        if (!open(v)) return false;
        if (g_.leader())
            for (; v != top; v = tree().parent(v)) bound_by_draws(v);
        g_.barrier();
        return true;
    }

    // Selection.

    /// The child selected at an open node; `none` where a row is not a distribution.
    [[nodiscard]] MULTIDRAFT_HD node_id pick_child(node_id v) {
        node_id const first = nodes_[v].first;
        node_id candidate = none;
        if (nodes_[v].draws > 0) {
            candidate = best_draw(v);
            if (candidate == none) return none;
            if (nodes_[v].certain == 0) return candidate;  // kept, or after all
            auto const kept = is_kept(v, candidate);
            if (kept == answer::unknown) return none;
            if (kept == answer::yes) return candidate;
        }
        for (node_id certain = first; certain < first + nodes_[v].certain; ++certain) {
            auto const taken = is_taken(v, certain);
            if (taken == answer::unknown) return none;
            if (taken == answer::yes) return certain;
        }
        return candidate != none ? candidate : last_certain(v);  // the latter by rounding
    }

    /// The draw with the smallest rank.
    [[nodiscard]] MULTIDRAFT_HD node_id best_draw(node_id v) {
        for (;;) {
            ranked_draws const draws = draws_of(v);
            if (draws.decided) return draws.best;
            if (!look_below(v, draws.best)) return none;
        }
    }

    enum class answer : std::uint8_t { no, yes, unknown };

    /// Whether the candidate is kept: by its quantile, without a draw.
    [[nodiscard]] MULTIDRAFT_HD answer is_kept(node_id v, node_id candidate) {
        for (;;) {
            if (keeps(curve_of(v), nodes_[candidate], nodes_[candidate].most)) return answer::yes;
            if (!keeps(curve_of(v), nodes_[candidate], nodes_[candidate].least)) return answer::no;
            if (!look_below(v, candidate)) return answer::unknown;
        }
    }

    /// Whether a candidate with this quantile is kept. Nonincreasing in the quantile.
    [[nodiscard]] MULTIDRAFT_HD static bool keeps(conditional_rank_cdf const& curve, nested_node const& candidate,
                                                  double quantile) {
        if (!(candidate.selected.limit < 1)) return true;
        if (!(candidate.ranks.mass > 1e-300)) return false;
        std::int32_t piece = 0;
        double const rank = candidate.rank(quantile, piece);
        return candidate.part_before(piece, curve(rank)) <= candidate.selected.limit;
    }

    /// Whether a certain child is selected, given that the candidate and the earlier certain children are refused.
    [[nodiscard]] MULTIDRAFT_HD answer is_taken(node_id v, node_id certain) {
        for (;;) {
            nested_node const& child = nodes_[certain];
            if (child.most <= child.selected.limit) return answer::yes;
            if (!(child.least <= child.selected.limit)) return answer::no;
            if (!look_below(v, certain)) return answer::unknown;
        }
    }

    /// The last certain child to which the target gives mass.
    [[nodiscard]] MULTIDRAFT_HD node_id last_certain(node_id v) const {
        auto const p = target_(g_, v);
        node_id last = nodes_[v].first;
        for (node_id child = last; child < nodes_[v].first + nodes_[v].certain; ++child)
            if (p(token_of(child)) > 0) last = child;
        return last;
    }

    G const& g_;
    drafted<Law> const& drafts_;
    Target const& target_;
    Draft const& draft_;
    Source& source_;
    std::int32_t position_;
    nested_memory<real> memory_;
    nested_node* nodes_;
};

}  // namespace MULTIDRAFT_NAMESPACE::verify::detail
