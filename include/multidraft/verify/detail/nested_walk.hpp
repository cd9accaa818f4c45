// The pick of nested ranked block verification: sets and quantiles of the nodes that it asks for, and of no others.
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
#include "multidraft/random/draw_site.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/candidates.hpp"
#include "multidraft/verify/detail/block_weights.hpp"
#include "multidraft/verify/detail/checks.hpp"
#include "multidraft/verify/detail/nested_quantiles.hpp"
#include "multidraft/verify/detail/rank_table.hpp"
#include "multidraft/verify/detail/ranked_pick.hpp"
#include "multidraft/verify/verifier.hpp"

namespace MULTIDRAFT_NAMESPACE::verify::detail {

/// What nested ranked block verification keeps of a tree, in the caller's scratch.
template <class Real>
struct nested_memory {
    rank_table* table;            ///< the sets of the node that is being opened
    nested_node* nodes;           ///< one a node
    pick_numbers<Real>* numbers;  ///< of the law of each node's pick
    picked_step<Real>* steps;     ///< one a level

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

/// One walk down a tree, from the root to the node where nothing is left to pick.
///
/// A node is *opened* when its sets are asked for, its parent having been opened before: one histogram over its rows,
/// its sets under the curves above it, the ranks of its children. Which of several draws is the best, and whether it is
/// kept, is asked of bounds of their quantiles; where bounds do not answer, the one node is opened below that they hang
/// on. So what is picked is what quantiles of all nodes would have picked, while most nodes stay closed: ranks of
/// different tokens lie in different sets, and a certain child's quantile is no matter as long as candidates are kept.
///
/// Every lane walks, the leader alone writes to the nodes.
template <class Rules, group G, draft_law Law, row_source<G> Target, row_source<G> Draft, draw_source Source>
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

    /// Picks a path and writes its steps; returns its levels, or `none` where a row holds no distribution.
    [[nodiscard]] MULTIDRAFT_HD std::int32_t pick_path() {
        if constexpr (looks_ahead<G>)
            g_.look_ahead(tree().size(), [&](node_id v) {
                auto const children = children_of(v);
                if (children.count() > 0 && is_present(tree(), v))
                    count_for_pick(g_, target_(g_, v), draft_(g_, v), children, *memory_.table);
            });
        if (g_.leader()) start(0, true);
        if (g_.leader()) memory_.steps[0] = {0, 1, memory_.numbers};
        g_.barrier();
        real w = 1;
        node_id node = 0;
        std::int32_t level = 0;
        while (w > 0) {
            if (nodes_[node].is == nested_node::standing::closed && !open(node)) return none;
            if (nodes_[node].is != nested_node::standing::inner) break;
            node_id next = pick_child(node);
            if (next == none) return none;
            if constexpr (!Rules::all_draws_have_subtrees) next = first_of_equal(node, next);
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

    /// Makes the sets of a node and places its children; false, or a refusal, where its rows hold no distribution.
    [[nodiscard]] MULTIDRAFT_HD bool open(node_id v) {
        auto const children = children_of(v);
        auto const p = target_(g_, v);
        auto const q = draft_(g_, v);
        made const result = make_pick(g_, p, q, children, curve_of(v), *memory_.table, memory_.numbers[v]);
        if (result == made::nothing) return fail(v);
        bool const picks = result == made::sets;
        if (picks) place_children(v, p, q, children);
        if (g_.leader()) nodes_[v].is = picks ? nested_node::standing::inner : nested_node::standing::leaf;
        g_.barrier();
        return true;
    }

    /// Says on a host why nothing is picked of a node.
    [[nodiscard]] MULTIDRAFT_HD bool fail([[maybe_unused]] node_id v) const {
#if !MULTIDRAFT_ON_DEVICE
        if constexpr (may_throw<G>) refuse_node(g_, drafts_, target_, draft_, v);
#endif
        return false;
    }

    /// What is known of a node before its rows are looked at; `reached`: whether the target says its token.
    MULTIDRAFT_HD void start(node_id v, bool reached) {
        nested_node& node = nodes_[v];
        node.is = nested_node::standing::leaf;
        node.kind = nested_node::conditional_cdf::identity;
        node.limit = 1;
        node.informative = 0;
        node.draws = 0;
        node.certain = 0;
        auto const range = present_children<G>(tree(), v);
        node.first = range.first;
        if (!reached || range.count == 0) return;
        node.is = nested_node::standing::closed;
        node.certain = certain_of(drafts_, range, v);
        node.draws = range.count - node.certain;
    }

    /// Where the children of a node with sets stand, and what their quantiles tell.
    template <distribution P, distribution Q>
    MULTIDRAFT_HD void place_children(node_id v, P const& p, Q const& q, candidate_list children) {
        node_id const first = nodes_[v].first;
        bool const nests = tree().depth(v) + 1 < conditional_rank_cdf::most_levels;
        double certain_mass = 0;
        for (token_id const x : children.certain_tokens()) certain_mass += static_cast<double>(p(x));
        double before = 0;  // the chance that one of the certain children before is picked
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

    /// A certain child is picked, once the candidate and the certain ones before it are refused, when its quantile is
    /// at most its limit: `share` of what is `left`.
    MULTIDRAFT_HD static void place_certain(double share, double left, bool nests, nested_node& child) {
        double limit = -1;  // never
        if (share > 0) limit = share < left ? share / left : 1.0;
        bool const tells = nests && limit >= least_informative;
        child.informative = tells ? 1 : 0;
        child.kind = tells && Rules::conditions_certain ? nested_node::conditional_cdf::certain
                                                        : nested_node::conditional_cdf::identity;
        child.limit = limit;
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
        child.limit = limit;
        child.stays = Rules::damps ? 1 - static_cast<double>(numbers.passed) : 1.0;
        set_pieces(curve_of(v), table.pieces + first, count, child);
        double const pick = fp::fma(1 - child.limit, child.stays, child.limit);
        bool const picked = child.mass > 1e-300 && pick >= least_informative;
        child.per_mass = child.mass > 1e-300 ? 1 / child.mass : 0.0;
        child.per_pick = picked ? 1 / pick : 0.0;
        child.informative = picked && nests ? 1 : 0;
        child.kind = picked && nests ? nested_node::conditional_cdf::candidate : nested_node::conditional_cdf::identity;
    }

    /// The pieces of a child's rank set, and the mass of its parent's curve on them.
    MULTIDRAFT_HD static void set_pieces(conditional_rank_cdf const& curve, rank_piece const* pieces,
                                         std::int32_t count, nested_node& child) {
        child.length = 0;
        child.mass = 0;
        child.count = count;
        for (std::int32_t i = 0; i < count; ++i) {
            rank_piece const piece = pieces[i];
            child.pieces[i] = piece;
            child.below[i] = curve(piece.begin);
            child.before[i] = child.mass;
            child.length += piece.end - piece.begin;
            child.mass += curve(piece.end) - child.below[i];
        }
        if (count > 0) return;
        child.count = 1;  // by rounding: behind all others
        child.pieces[0] = {1, 1};
        child.below[0] = 1;
        child.before[0] = 0;
    }

    // Quantiles.

    /// What is known of the quantile of a node that is not open: it is a number of its own, or anything.
    MULTIDRAFT_HD void bound(node_id v) {
        nested_node& node = nodes_[v];
        node.least = 0;
        node.most = 1;
        if (!node.tells())
            node.least = node.most = source_.template uniform<double>(draw_site{position_, v}(purpose::rank, 0));
    }

    /// The same of an open node with draws.
    MULTIDRAFT_HD void bound_by_draws(node_id v) {
        ranked_draws const draws = draws_of(v);
        best_rank_cdf const quantile{nodes_[v].draws};
        nodes_[v].least = quantile(draws.least);
        nodes_[v].most = quantile(draws.most);
    }

    /// The draws of an open node: which has the least bound of its rank, the bounds of the best rank, and whether that
    /// one has it.
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

    /// Opens the node that the quantile of a child of `top` hangs on: the one with the best ranks in view.
    [[nodiscard]] MULTIDRAFT_HD bool look_below(node_id top, node_id child) {
        node_id v = child;
        while (nodes_[v].is == nested_node::standing::inner) v = draws_of(v).best;
        if (!open(v)) return false;
        if (g_.leader())
            for (; v != top; v = tree().parent(v)) bound_by_draws(v);
        g_.barrier();
        return true;
    }

    // The pick.

    /// The child that an open node offers; `none` where a row holds no distribution.
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

    /// Whether a candidate of this quantile is kept. No more often when the quantile rises.
    [[nodiscard]] MULTIDRAFT_HD static bool keeps(conditional_rank_cdf const& curve, nested_node const& candidate,
                                                  double quantile) {
        if (!(candidate.limit < 1)) return true;
        if (!(candidate.mass > 1e-300)) return false;
        std::int32_t piece = 0;
        double const rank = candidate.rank(quantile, piece);
        return candidate.part_before(piece, curve(rank)) <= candidate.limit;
    }

    /// Whether a certain child is picked, the candidate and those before it being refused.
    [[nodiscard]] MULTIDRAFT_HD answer is_taken(node_id v, node_id certain) {
        for (;;) {
            nested_node const& child = nodes_[certain];
            if (child.most <= child.limit) return answer::yes;
            if (!(child.least <= child.limit)) return answer::no;
            if (!look_below(v, certain)) return answer::unknown;
        }
    }

    /// The last certain child that the target may say.
    [[nodiscard]] MULTIDRAFT_HD node_id last_certain(node_id v) const {
        auto const p = target_(g_, v);
        node_id last = nodes_[v].first;
        for (node_id child = last; child < nodes_[v].first + nodes_[v].certain; ++child)
            if (p(token_of(child)) > 0) last = child;
        return last;
    }

    /// For a deliberate bug: the first draw of the same token.
    [[nodiscard]] MULTIDRAFT_HD node_id first_of_equal(node_id v, node_id picked) const {
        node_id first = picked;
        for (node_id child = picked; --child >= nodes_[v].first + nodes_[v].certain;)
            if (token_of(child) == token_of(picked)) first = child;
        return first;
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
