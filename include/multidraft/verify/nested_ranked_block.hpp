// Nested ranked block verification from histograms: a subtree that turned out well is picked more often.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "multidraft/core/config.hpp"
#include "multidraft/core/error.hpp"
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
#include "multidraft/verify/verdict.hpp"
#include "multidraft/verify/verifier.hpp"

namespace MULTIDRAFT_NAMESPACE::verify {

/// What nested ranked block verification owes to the quantiles: the right rules, for tests to break.
struct nested_rules {
    /// The second draw of a token has a subtree, and so a quantile, of its own.
    static constexpr bool all_draws_have_subtrees = true;
    /// A candidate's conditional distribution function counts that quantiles beyond the kept part are picked less
    /// often.
    static constexpr bool damps = true;
    /// A certain token's quantile is what it was picked by, which conditions its subtree.
    static constexpr bool conditions_certain = true;
};

/// Nested ranked block verification ([Ranked] 6), from histograms: `ranked_block` where the rank of a draw in
/// its token's set is not a fresh uniform but says how well the token's own subtree turned out, while the law of each
/// level stays exact.
///
/// Every node has a quantile in [0, 1], uniform before anything is known: a leaf draws it, and so does a node whose
/// children are all certain or which is hardly ever picked (`least_informative`); another one's is 1 - (1 - r)^j, r the
/// best rank among its j draws. Given that a node was picked its quantile has a known law (`nested_node`), and the
/// node's sets are made for the best of j ranks under that law (`conditional_rank_cdf`). Two draws of one token have a
/// subtree and a quantile each. Sets from the root down, quantiles from the leaves up, the picked path from the root
/// down, then block verification of the path. A child whose token the target never says is a leaf: what is below it is
/// not read.
///
/// Lossless for `law::iid` and `law::stratified`, exactly. One count over p and q for every node with children (two
/// in double), a sum where there are certain tokens, and the passes of `stop_of_block`. For groups of all kinds; the
/// exact form by sorting is `testing::reference::nested_ranked_block`.
template <draft_law Law, class Rules = nested_rules>
class nested_ranked_block {
    static_assert(is_ranked_law<Law>,
                  "multidraft: verify::nested_ranked_block is for trees drawn independently, law::iid and "
                  "law::stratified; for law::sequential use verify::traversal; verify::naive<Law> fits every law");

public:
    using law = Law;
    static constexpr bool lossless = true;

    /// The sets of one node; for each node its quantile, its conditional distribution function and the numbers of its
    /// law; a step a level.
    [[nodiscard]] MULTIDRAFT_HD static constexpr std::size_t scratch_bytes(node_id nodes, std::int32_t depth) {
        auto const levels = static_cast<std::size_t>(depth) + 1;
        return detail::whole_16(sizeof(rank_table)) +
               static_cast<std::size_t>(nodes) *
                   (detail::whole_16(sizeof(nested_node)) + detail::whole_16(sizeof(pick_numbers<double>))) +
               levels * sizeof(detail::picked_step<double>) + 16;
    }

    /// Verifies one tree; see `node_by_node::operator()` for the arguments and the errors, `scratch_bytes` for the last
    /// one. The rows of all nodes with children are read that the target can come to.
    template <group G, draft_law Drawn, row_source<G> Target, row_source<G> Draft, draw_source Source>
    MULTIDRAFT_HD verdict operator()(G const& g, drafted<Drawn> const& drafts, Target const& target_rows,
                                     Draft const& draft_rows, Source& source, std::int32_t position, span<node_id> path,
                                     span<std::byte> scratch) const {
        auto const& target = named<G>(target_rows, "target");
        [[maybe_unused]] auto const& draft = named<G>(draft_rows, "draft");
        static_assert(std::is_same_v<Drawn, Law>,
                      "multidraft: the tree was drawn by another law than this verifier is for: name the tree's law in "
                      "the verifier, such as verify::nested_ranked_block<law::stratified>");
        using real = probability_of<std::decay_t<decltype(target(g, 0))>>;
        tree_view const tree = drafts.tree;
        node_id const size = tree.size();
#if !MULTIDRAFT_ON_DEVICE
        if constexpr (may_throw<G>) {
            detail::check_tree(drafts, target, draft, path);
            detail::check_scratch<nested_ranked_block>(tree, scratch);
        }
#endif
        auto& table = *reinterpret_cast<rank_table*>(scratch.data());
        std::byte* next_byte = scratch.data() + detail::whole_16(sizeof(rank_table));
        auto* const nodes = reinterpret_cast<nested_node*>(next_byte);
        next_byte += detail::whole_16(static_cast<std::size_t>(size) * sizeof(nested_node));
        auto* const numbers = reinterpret_cast<pick_numbers<real>*>(next_byte);
        next_byte += static_cast<std::size_t>(size) * detail::whole_16(sizeof(pick_numbers<double>));
        auto* const steps = reinterpret_cast<detail::picked_step<real>*>(next_byte);

        if constexpr (looks_ahead<G>)
            g.look_ahead(size, [&](node_id v) {
                auto const range = present_children<G>(tree, v);
                if (range.count > 0 && is_present(tree, v))
                    detail::count_for_pick(g, target(g, v), draft(g, v), candidates_of(drafts, range, v), table);
            });

        // Sets, from the root down: a node's curve asks for the sets above it.
        node_id made_before = 0;
        if constexpr (has_checkpoints<G>) made_before = g.resume();
        if (g.leader() && made_before == 0) start(nodes[0], nested_node::standing::leaf);
        g.barrier();
        std::int32_t deepest = 0;
        [[maybe_unused]] node_id level_end = made_before;
        for (node_id v = made_before; v < size; ++v) {
            if constexpr (has_checkpoints<G>)
                if (v == level_end) g.checkpoint(v);
            if constexpr (looks_ahead<G>) {
                // What is kept of the candidates of a level, where there are certain tokens beside.
                if (v == level_end) {
                    node_id const first = v;
                    while (level_end < size && tree.depth(level_end) == tree.depth(first)) ++level_end;
                    g.look_ahead(level_end - first, [&](index_t k) {
                        node_id const at = first + k;
                        auto const range = present_children<G>(tree, at);
                        if (nodes[at].is != nested_node::standing::leaf || range.count == 0) return;
                        auto const children = candidates_of(drafts, range, at);
                        if (children.certain <= 0 || children.draws() == 0) return;
                        nodes[at].draws = children.draws();
                        nodes[at].certain = children.certain;
                        static_cast<void>(detail::make_pick(g, target(g, at), draft(g, at), children,
                                                            conditional_rank_cdf{nodes, tree.parents, at}, table,
                                                            numbers[at]));
                    });
                }
            }
            auto const room = tree.children(v);
            if (room.count == 0) continue;
            if (g.leader())
                for (node_id child = room.first; child < room.end(); ++child)
                    start(nodes[child], nested_node::standing::absent);
            auto const range = present_children<G>(tree, v);
            if (nodes[v].is == nested_node::standing::leaf && range.count > 0) {
                auto const children = candidates_of(drafts, range, v);
                if (g.leader()) {
                    nodes[v].draws = children.draws();
                    nodes[v].certain = children.certain;
                }
                g.barrier();
                auto const p = target(g, v);
                auto const q = draft(g, v);
                conditional_rank_cdf const curve{nodes, tree.parents, v};
                auto const made = detail::make_pick(g, p, q, children, curve, table, numbers[v]);
                if (made == detail::made::nothing) {
#if !MULTIDRAFT_ON_DEVICE
                    if constexpr (may_throw<G>) detail::refuse_node(g, drafts, target, draft, v);
#endif
                    return {};
                }
                if (made == detail::made::sets) {
                    deepest = tree.depth(v) + 1;
                    if (g.leader()) nodes[v].is = nested_node::standing::inner;
                    place_children(g, p, q, children, numbers[v], table, curve, source, draw_site{position, v},
                                   deepest < conditional_rank_cdf::most_levels, nodes + range.first);
                }
            }
            g.barrier();
        }

        if constexpr (has_checkpoints<G>) g.checkpoint(size);

        // Positions, from the leaves up.
        if (g.leader()) {
            for (node_id v = size - 1; v > 0; --v) {
                if (nodes[v].is == nested_node::standing::absent) continue;
                if (nodes[v].tells()) {
                    double rank = 0;
                    static_cast<void>(best_draw(nodes, present_children<G>(tree, v), nodes[v].certain, rank));
                    nodes[v].quantile = best_rank_cdf{nodes[v].draws}(rank);
                } else {
                    nodes[v].quantile = source.template uniform<double>(draw_site{position, v}(purpose::rank, 0));
                }
            }
            steps[0] = {0, 1, numbers};
        }
        g.barrier();

        // The picked path.
        real w = 1;
        node_id node = 0;
        std::int32_t level = 0;
        while (w > 0 && nodes[node].is == nested_node::standing::inner) {
            auto const range = present_children<G>(tree, node);
            auto const children = candidates_of(drafts, range, node);
            auto const p = target(g, node);
            node_id next = none;
            if (nodes[node].draws > 0) {
                double rank = 0;
                next = best_draw(nodes, range, nodes[node].certain, rank);
            }
            if (next == none || !keeps(conditional_rank_cdf{nodes, tree.parents, node}, nodes[next])) {
                for (index_t k = 0; k < nodes[node].certain; ++k) {
                    nested_node const& certain = nodes[range.first + k];
                    if (!(certain.quantile <= certain.limit)) continue;
                    next = range.first + k;
                    break;
                }
            }
            if (next == none) next = last_certain(p, children, range);  // by rounding
            if constexpr (!Rules::all_draws_have_subtrees)
                for (node_id v = next; --v >= range.first + nodes[node].certain;)
                    if (tree.tokens[static_cast<std::size_t>(v)] == tree.tokens[static_cast<std::size_t>(next)])
                        next = v;
            token_id const x = tree.tokens[static_cast<std::size_t>(next)];
            auto const m = numbers[node].law(p, draft(g, node), children);
            w = next_weight(w, static_cast<real>(p(x)), m(x));
            ++level;
            if (g.leader()) {
                steps[level - 1].numbers = numbers + node;
                steps[level] = {next, w, numbers};
            }
            node = next;
        }
        g.barrier();
        return detail::finish_picked(g, drafts, target, draft, steps, level, source, position, path);
    }

private:
    /// A node of which nothing is known yet.
    MULTIDRAFT_HD static void start(nested_node& node, nested_node::standing is) {
        node.is = is;
        node.kind = nested_node::conditional_cdf::identity;
        node.draws = 0;
        node.certain = 0;
        node.informative = 0;
    }

    /// Where the children of a node with sets stand, and what their quantiles tell; `nests`: whether they may.
    template <group G, distribution P, distribution Q, class Real, class Curve, draw_source Source>
    MULTIDRAFT_HD static void place_children(G const& g, P const& p, Q const& q, candidate_list children,
                                             pick_numbers<Real> const& numbers, rank_table const& table,
                                             Curve const& curve, Source& source, draw_site site, bool nests,
                                             nested_node* nodes) {
        double certain_mass = 0;
        for (token_id const x : children.certain_tokens()) certain_mass += static_cast<double>(p(x));
        double before = 0;  // the chance that one of the certain children before is picked
        for (index_t k = 0; k < children.count(); ++k) {
            token_id const x = children[k];
            if (g.leader())
                start(nodes[k], p(x) > 0 ? nested_node::standing::leaf : nested_node::standing::unreachable);
            if (k >= children.certain) {
                place_draw(g, p, q, children, numbers, table, curve, k, source, site, nests, nodes[k]);
                continue;
            }
            double const part = certain_mass > 0 ? static_cast<double>(p(x)) / certain_mass : 0.0;
            double const share = fp::mul(part, static_cast<double>(numbers.passed));
            if (g.leader()) decide_certain(share, 1 - before, nests, nodes[k]);
            before += share;
        }
    }

    /// A certain child is picked, once the candidate and the certain ones before it are refused, when its quantile is
    /// at most its limit: `share` of what is `left`.
    MULTIDRAFT_HD static void decide_certain(double share, double left, bool nests, nested_node& child) {
        double limit = -1;  // never
        if (share > 0) limit = share < left ? share / left : 1.0;
        bool const tells = nests && limit >= least_informative;
        child.informative = tells ? 1 : 0;
        child.kind = tells && Rules::conditions_certain ? nested_node::conditional_cdf::certain
                                                        : nested_node::conditional_cdf::identity;
        child.limit = limit;
    }

    /// The rank set of the k-th child, a draw, and its conditional distribution function.
    template <group G, distribution P, distribution Q, class Real, class Curve, draw_source Source>
    MULTIDRAFT_HD static void place_draw(G const& g, P const& p_row, Q const& q_row, candidate_list children,
                                         pick_numbers<Real> const& numbers, rank_table const& table, Curve const& curve,
                                         index_t k, Source& source, draw_site site, bool nests, nested_node& child) {
        token_id const x = children[k];
        auto const law = numbers.candidate(p_row, q_row, children);
        index_t const grid_point = grid_point_of(law.draws.where, x, k, source, site);
        std::int32_t first = table.first[grid_point];
        std::int32_t count = table.count[grid_point];
        if (count > nested_node::most_pieces) {
            first = piece_of(table, grid_point, k, source, site);
            count = 1;
        }
        Real const m = law(x);
        Real const p = p_row(x);
        if (!g.leader()) return;
        child.limit = p < m ? static_cast<double>(p) / static_cast<double>(m) : 1.0;
        child.stays = Rules::damps ? 1 - static_cast<double>(numbers.passed) : 1.0;
        child.length = 0;
        child.mass = 0;
        child.count = count;
        for (std::int32_t i = 0; i < count; ++i) {
            rank_piece const piece = table.pieces[first + i];
            child.pieces[i] = piece;
            child.below[i] = curve(piece.begin);
            child.before[i] = child.mass;
            child.length += piece.end - piece.begin;
            child.mass += curve(piece.end) - child.below[i];
        }
        if (count == 0) {  // by rounding: behind all others
            child.count = 1;
            child.pieces[0] = {1, 1};
            child.below[0] = 1;
            child.before[0] = 0;
        }
        double const pick = fp::fma(1 - child.limit, child.stays, child.limit);
        bool const picked = child.mass > 1e-300 && pick >= least_informative;
        child.per_mass = child.mass > 1e-300 ? 1 / child.mass : 0.0;
        child.per_pick = picked ? 1 / pick : 0.0;
        child.informative = picked && nests ? 1 : 0;
        child.kind = picked && nests ? nested_node::conditional_cdf::candidate : nested_node::conditional_cdf::identity;
    }

    /// The last certain child that the target may say.
    template <distribution P>
    [[nodiscard]] MULTIDRAFT_HD static node_id last_certain(P const& p, candidate_list children, node_range range) {
        index_t last = 0;
        for (index_t k = 0; k < children.certain; ++k)
            if (p(children[k]) > 0) last = k;
        return range.first + last;
    }

    /// The draw with the smallest rank.
    [[nodiscard]] MULTIDRAFT_HD static node_id best_draw(nested_node const* nodes, node_range children, index_t certain,
                                                         double& rank) {
        node_id best = none;
        for (node_id v = children.first + certain; v < children.end(); ++v) {
            std::int32_t piece = 0;
            double const here = nodes[v].rank(nodes[v].quantile, piece);
            if (best != none && !(here < rank)) continue;
            rank = here;
            best = v;
        }
        return best;
    }

    /// Whether the candidate is kept: by its quantile, without a draw.
    [[nodiscard]] MULTIDRAFT_HD static bool keeps(conditional_rank_cdf const& curve, nested_node const& candidate) {
        if (!(candidate.limit < 1)) return true;
        if (!(candidate.mass > 1e-300)) return false;
        std::int32_t piece = 0;
        double const rank = candidate.rank(candidate.quantile, piece);
        return candidate.part_before(piece, curve(rank)) <= candidate.limit;
    }
};

}  // namespace MULTIDRAFT_NAMESPACE::verify
