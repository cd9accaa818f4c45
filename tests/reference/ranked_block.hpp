// Ranked block verification: at every node ranked verification selects a child, then the path is verified as a block.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/rows/probabilities.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/detail/block_weights.hpp"
#include "multidraft/verify/detail/checks.hpp"
#include "multidraft/verify/detail/rank_table.hpp"
#include "multidraft/verify/detail/ranked_pick.hpp"
#include "multidraft/verify/traits.hpp"
#include "multidraft/verify/verdict.hpp"
#include "multidraft/verify/verifier.hpp"
#include "reference/ranked_node.hpp"

namespace MULTIDRAFT_NAMESPACE::testing::reference {

namespace detail {

/// A selected path as `stop_of_block` reads it.
template <class Target, class Real>
struct picked_path {
    tree_view tree;
    Target const& target_rows;
    std::vector<node_id> nodes{0};
    std::vector<Real> weights{Real(1)};
    std::vector<std::vector<double>> laws{};  ///< of the next token, by level

    [[nodiscard]] std::int32_t length() const { return static_cast<std::int32_t>(nodes.size()) - 1; }
    [[nodiscard]] node_id node(std::int32_t level) const { return nodes[static_cast<std::size_t>(level)]; }
    [[nodiscard]] token_id token(std::int32_t level) const { return tree.tokens[node(level)]; }
    [[nodiscard]] Real weight(std::int32_t level) const { return weights[static_cast<std::size_t>(level)]; }
    [[nodiscard]] Target const& target() const { return target_rows; }
    template <group G>
    [[nodiscard]] probabilities<double> conditional(G const&, std::int32_t level) const {
        auto const& law = laws[static_cast<std::size_t>(level)];
        return {law.data(), static_cast<index_t>(law.size())};
    }
};

/// The walk of ranked block verification; with `Nested` a child's quantile comes from its subtree.
template <draft_law Law, bool Nested, group G, class Target, class Draft, class Source>
class ranked_walk {
public:
    ranked_walk(G const& g, drafted<Law> const& drafts, Target const& target, Draft const& draft, Source& source,
                std::int32_t position, double pooled)
        : g_(g),
          drafts_(drafts),
          tree_(drafts.tree),
          target_(target),
          draft_(draft),
          source_(source),
          position_(position),
          pooled_(pooled),
          nodes_(static_cast<std::size_t>(tree_.size())),
          quantiles_(static_cast<std::size_t>(tree_.size()), unknown) {}

    [[nodiscard]] verdict run(span<node_id> path) {
        using real = probability_of<std::decay_t<decltype(target_(g_, 0))>>;
        verify::detail::check_tree(drafts_, target_, draft_, path);
        if constexpr (Nested) {
            make_sets();
            make_quantiles();
        }
        picked_path<Target, real> picked{tree_, target_};
        for (node_id v = 0; picked.weights.back() > 0;) {
            if constexpr (!Nested)
                if (!tree_.children(v).empty()) make_sets_of(v, {});
            if (node_of(v) == nullptr) break;
            ranked_node const& node = *node_of(v);
            auto const children = tree_.children(v);
            index_t const k = Nested ? pick_by_quantiles(v, node, children) : pick_by_draws(v, node, children);
            std::vector<double> law(static_cast<std::size_t>(target_.size()));
            for (std::size_t i = 0; i < law.size(); ++i) law[i] = node.law(static_cast<token_id>(i));
            token_id const x = tree_.tokens[at(children.first + k)];
            picked.weights.push_back(verify::detail::next_weight(picked.weights.back(), target_(g_, v)(x),
                                                                 static_cast<real>(law[static_cast<std::size_t>(x)])));
            picked.laws.push_back(std::move(law));
            v = children.first + k;
            picked.nodes.push_back(v);
        }
        return verify::detail::verify_block(g_, tree_, picked, source_, position_, path);
    }

private:
    static constexpr double unknown = -1;

    static std::size_t at(std::int32_t i) noexcept { return static_cast<std::size_t>(i); }
    [[nodiscard]] ranked_node const* node_of(node_id v) const { return nodes_[at(v)].get(); }
    [[nodiscard]] verify::candidate_list candidates(node_id v) const {
        return verify::candidates_of(drafts_, tree_.children(v), v);
    }

    /// The sets of a node with children; none where no child can be selected because all are certain and have no mass.
    void make_sets_of(node_id v, conditional_cdf own) {
        auto const children = candidates(v);
        auto const p = target_(g_, v);
        auto const q = draft_(g_, v);
        if (!verify::detail::may_be_drawn(q, children)) verify::detail::refuse_node(g_, drafts_, target_, draft_, v);
        if (children.draws() == 0) {
            double certain_mass = 0;
            for (token_id const x : children.tokens) certain_mass += static_cast<double>(p(x));
            if (certain_mass < verify::detail::least_certain) return;
        }
        nodes_[at(v)] = std::make_unique<ranked_node>(p, q, children.certain_tokens(), children.draws(), own, pooled_);
        if (!nodes_[at(v)]->valid()) verify::detail::refuse_node(g_, drafts_, target_, draft_, v);
    }

    /// Those of all nodes with positive probability under the target, from the root down. A child's conditional
    /// distribution function determines whether its quantile may come from its subtree.
    void make_sets() {
        std::vector<conditional_cdf> cdfs(nodes_.size());
        std::vector<char> reached(nodes_.size(), 0);
        reached[0] = 1;
        from_subtree_.assign(nodes_.size(), 0);
        for (node_id v = 0; v < tree_.size(); ++v) {
            auto const children = tree_.children(v);
            if (reached[at(v)] == 0 || children.empty()) continue;
            make_sets_of(v, cdfs[at(v)]);
            ranked_node const* const node = node_of(v);
            if (node == nullptr) continue;
            from_subtree_[at(v)] = !cdfs[at(v)].is_identity() && node->draws() > 0 ? 1 : 0;
            auto const p = target_(g_, v);
            for (index_t k = 0; k < children.count; ++k) {
                token_id const x = tree_.tokens[at(children.first + k)];
                cdfs[at(children.first + k)] = node->conditional_cdf_of(k, x);
                reached[at(children.first + k)] = p(x) > 0 ? 1 : 0;
            }
        }
    }

    /// From the leaves up.
    void make_quantiles() {
        for (node_id v = tree_.size() - 1; v > 0; --v) {
            if (from_subtree_[at(v)] == 0) continue;
            double rank = 0;
            static_cast<void>(best_by_quantiles(*node_of(v), tree_.children(v), rank));
            quantiles_[at(v)] = node_of(v)->quantile_of_best(rank);
        }
    }

    [[nodiscard]] double quantile_of(node_id v) {
        double& u = quantiles_[at(v)];
        if (u == unknown) u = source_.template uniform<double>(draw_site{position_, v}(purpose::rank, 0));
        return u;
    }

    /// The draw with the best rank.
    [[nodiscard]] index_t best_by_quantiles(ranked_node const& node, node_range children, double& rank) {
        index_t best = none;
        for (index_t k = node.certain(); k < children.count; ++k) {
            node_id const child = children.first + k;
            double const r = node.rank(tree_.tokens[at(child)], quantile_of(child));
            if (best != none && !(r < rank)) continue;
            rank = r;
            best = k;
        }
        return best;
    }

    [[nodiscard]] index_t pick_by_quantiles(node_id, ranked_node const& node, node_range children) {
        double rank = 0;
        index_t const best = best_by_quantiles(node, children, rank);
        if (best != none && node.keeps(tree_.tokens[at(children.first + best)], quantile_of(children.first + best)))
            return best;
        index_t last = best;
        for (index_t k = 0; k < node.certain(); ++k) {
            double const limit = node.certain_limit(k);
            if (!(limit > 0)) continue;
            if (quantile_of(children.first + k) <= limit) return k;
            if (best == none) last = k;  // none of them by rounding
        }
        return last;
    }

    [[nodiscard]] index_t pick_by_draws(node_id v, ranked_node const& node, node_range children) {
        draw_site const site{position_, v};
        index_t best = none;
        if (node.draws() > 0) {
            best = best_ranked(g_, node, candidates(v), source_, site);
            token_id const x = tree_.tokens[at(children.first + best)];
            if (node.certain() == 0 ||
                source_.bernoulli(site(purpose::path, 0), target_mass(v, x), node.candidate_law(x)) ||
                !source_.bernoulli(site(purpose::path, 1), node.passed(), 1.0))
                return best;
        }
        // In proportion to the target's mass; the last one with mass takes the remainder.
        double left = 0;
        for (index_t k = 0; k < node.certain(); ++k) left += target_mass(v, tree_.tokens[at(children.first + k)]);
        for (index_t k = 0; k < node.certain(); ++k) {
            double const here = target_mass(v, tree_.tokens[at(children.first + k)]);
            if (!(here > 0)) continue;
            best = k;
            if (source_.bernoulli(site(purpose::path, 2 + k), here, left)) break;
            left -= here;
        }
        return best;
    }

    [[nodiscard]] double target_mass(node_id v, token_id x) const { return static_cast<double>(target_(g_, v)(x)); }

    G const& g_;
    drafted<Law> const& drafts_;
    tree_view tree_;
    Target const& target_;
    Draft const& draft_;
    Source& source_;
    std::int32_t position_;
    double pooled_;
    std::vector<std::unique_ptr<ranked_node>> nodes_;
    std::vector<char> from_subtree_;  ///< whether a node's quantile is that of its best draw
    std::vector<double> quantiles_;
};

/// The verifier of that walk.
template <draft_law Law, bool Nested>
class ranked_walk_verifier : public verify::whole_tree<ranked_walk_verifier<Law, Nested>, Law> {
    static_assert(verify::is_ranked_law<Law>,
                  "multidraft: verify::ranked_block and verify::nested_ranked_block are for trees drawn independently, "
                  "law::iid and law::stratified; for law::sequential use verify::traversal; verify::naive<Law> fits "
                  "every law");

public:
    static constexpr multidraft::verify::verifier_traits traits{.lossless = true};

    ranked_walk_verifier() = default;
    /// `pooled`: see `ranked`.
    explicit ranked_walk_verifier(double pooled) noexcept : pooled_(pooled) {}

    /// The verdict on one tree; see `whole_tree::operator()`, which calls it.
    template <group G, class Target, class Draft, draw_source Source>
    verdict decide_tree(G const& g, drafted<Law> const& tree, Target const& target, Draft const& draft, Source& source,
                        std::int32_t position, span<node_id> path) const {
        return ranked_walk<Law, Nested, G, std::decay_t<decltype(target)>, std::decay_t<decltype(draft)>, Source>(
                   g, tree, target, draft, source, position, pooled_)
            .run(path);
    }

private:
    double pooled_ = 0x1p-26;
};

}  // namespace detail

/// The reference of `verify::ranked_block` ([Ranked] 5): from the root down, one child of each node is selected: the
/// candidate of ranked verification or, where it is refused, a certain token (`ranked_node::law`). The selected path,
/// whose conditionals are known exactly, is then verified as a block (`stop_of_block`).
///
/// Lossless for `law::iid` and `law::stratified`. Reads the rows of p and q on the selected path only. On the host,
/// exact: see `ranked_node` for cost and memory.
template <draft_law Law>
class ranked_block : public detail::ranked_walk_verifier<Law, false> {
    using base = detail::ranked_walk_verifier<Law, false>;

public:
    using base::base;
};

}  // namespace MULTIDRAFT_NAMESPACE::testing::reference
