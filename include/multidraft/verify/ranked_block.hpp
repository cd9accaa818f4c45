// Ranked block verification from histograms: at every node ranked verification selects one child, then the path is
// verified as a block.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/tree/allowed_trees.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/detail/block_weights.hpp"
#include "multidraft/verify/detail/checks.hpp"
#include "multidraft/verify/detail/rank_table.hpp"
#include "multidraft/verify/detail/ranked_pick.hpp"
#include "multidraft/verify/traits.hpp"
#include "multidraft/verify/verdict.hpp"
#include "multidraft/verify/verifier.hpp"

namespace MULTIDRAFT_NAMESPACE::verify {

/// Ranked block verification ([Ranked] 5), from histograms: from the root down, one child of each node is selected: the
/// candidate of ranked verification or, where it is refused, a certain token (`picked_law`). The selected path, whose
/// conditionals are known exactly, is then verified as a block (`stop_of_block`).
///
/// Lossless for `law::iid` and `law::stratified`, exactly. One counting pass over p and q per level for rows of floats
/// (two for doubles) and the passes of `stop_of_block`; rows off the selected path are not read. `draft(g, node)` and
/// `target(g, node)` are called more than once for a row, so rows that cost a pass to normalise are better prepared
/// beforehand (`remembered_rows`). Runs on every group.
template <draft_law Law>
class ranked_block : public whole_tree<ranked_block<Law>, Law> {
    static_assert(
        is_ranked_law<Law>,
        "multidraft: verify::ranked_block is for trees drawn independently, law::iid and law::stratified; for "
        "law::sequential use verify::traversal; verify::naive<Law> fits every law");

public:
    /// Ranks are fresh draws.
    static constexpr verifier_traits traits{
        .lossless = true, .lists_may_be_shared = true, .shape_may_depend_on = shape_depends_on::earlier_draws};

    /// The sets of one node, and for each level a step with the numbers of its law.
    [[nodiscard]] MULTIDRAFT_HD static constexpr std::size_t scratch_bytes(node_id /*nodes*/, std::int32_t depth) {
        auto const levels = static_cast<std::size_t>(depth) + 1;
        return detail::whole_16(sizeof(detail::rank_table)) +
               levels * (detail::whole_16(sizeof(detail::pick_numbers<double>)) + sizeof(detail::picked_step<double>));
    }

    /// The verdict on one tree; see `whole_tree::operator()`, which calls it.
    template <group G, class Target, class Draft, draw_source Source>
    MULTIDRAFT_HD verdict decide_tree(G const& g, drafted<Law> const& drafts, Target const& target, Draft const& draft,
                                      Source& source, std::int32_t position, span<node_id> path,
                                      span<std::byte> scratch) const {
        using real = probability_of<std::decay_t<decltype(target(g, 0))>>;
        tree_view const tree = drafts.tree;
        std::int32_t const depth = tree.depth(tree.size() - 1);
        auto& table = *reinterpret_cast<detail::rank_table*>(scratch.data());
        std::byte* next_byte = scratch.data() + detail::whole_16(sizeof(detail::rank_table));
        auto* const numbers = reinterpret_cast<detail::pick_numbers<real>*>(next_byte);
        next_byte += (static_cast<std::size_t>(depth) + 1) * detail::whole_16(sizeof(detail::pick_numbers<double>));
        auto* const steps = reinterpret_cast<detail::picked_step<real>*>(next_byte);  // aligned for its pointer
        real w = 1;
        node_id node = 0;
        std::int32_t level = 0;
        if (g.leader()) steps[0] = {0, 1, numbers};
        while (w > 0) {
            auto const range = present_children<G>(tree, node);
            if (range.count == 0) break;
            draw_site const site{position, node};
            auto const children = candidates_of(drafts, range, node);
            auto const p = target(g, node);
            auto const q = draft(g, node);
            auto const made =
                detail::make_pick(g, p, q, children, detail::best_rank_cdf{children.draws()}, table, numbers[level]);
            if (made == detail::made::leaf) break;
            if (made == detail::made::nothing) {
                detail::refuse_node_on_host(g, drafts, target, draft, node);
                return {};
            }
            index_t const next = pick(p, q, children, table, numbers[level], source, site);
            token_id const picked = children[next];
            w = detail::next_weight(w, static_cast<real>(p(picked)), numbers[level].law(p, q, children)(picked));
            node = range.first + next;
            ++level;
            if (g.leader()) steps[level] = {node, w, numbers + level};
        }
        g.barrier();
        return detail::finish_picked(g, drafts, target, draft, steps, level, source, position, path);
    }

private:
    /// The selected child: the candidate, or a certain one where it is refused.
    template <distribution P, distribution Q, class Real, draw_source Source>
    [[nodiscard]] MULTIDRAFT_HD static index_t pick(P const& p, Q const& q, candidate_list children,
                                                    detail::rank_table const& table,
                                                    detail::pick_numbers<Real> const& numbers, Source& source,
                                                    draw_site site) {
        index_t const kept = children.draws() > 0 ? kept_candidate(p, q, children, table, numbers, source, site) : none;
        return kept != none ? kept : picked_certain<Real>(p, children, source, site);
    }

    /// The candidate, or `none` where it is refused and a certain token is selected.
    template <distribution P, distribution Q, class Real, draw_source Source>
    [[nodiscard]] MULTIDRAFT_HD static index_t kept_candidate(P const& p, Q const& q, candidate_list children,
                                                              detail::rank_table const& table,
                                                              detail::pick_numbers<Real> const& numbers, Source& source,
                                                              draw_site site) {
        auto const where = numbers.where(p, q);
        index_t const best = detail::best_ranked(table, where, children, source, site);
        if (children.certain == 0) return best;
        double const kept = table.kept_part(where(children[best]));
        if (source.bernoulli(site(purpose::path, 0), kept, 1.0)) return best;
        return source.bernoulli(site(purpose::path, 1), numbers.passed, Real(1)) ? none : best;
    }

    /// A certain token with probability proportional to the target's mass; the last one with mass takes the remainder.
    template <class Real, distribution P, draw_source Source>
    [[nodiscard]] MULTIDRAFT_HD static index_t picked_certain(P const& p, candidate_list children, Source& source,
                                                              draw_site site) {
        Real left = 0;
        for (token_id const x : children.certain_tokens()) left += p(x);
        index_t picked = 0;
        for (index_t k = 0; k < children.certain; ++k) {
            Real const here = p(children[k]);
            if (!(here > 0)) continue;
            picked = k;
            if (source.bernoulli(site(purpose::path, 2 + k), here, left)) break;
            left -= here;
        }
        return picked;
    }
};

}  // namespace MULTIDRAFT_NAMESPACE::verify
