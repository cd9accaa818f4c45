// Ranked block verification: at every node the child that ranked verification would offer, then the path as a block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include "multidraft/core/config.hpp"
#include "multidraft/core/error.hpp"
#include "multidraft/core/group.hpp"
#include "multidraft/core/span.hpp"
#include "multidraft/distribution/distribution.hpp"
#include "multidraft/distribution/probabilities.hpp"
#include "multidraft/draft/law.hpp"
#include "multidraft/random/place.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/block_weights.hpp"
#include "multidraft/verify/checks.hpp"
#include "multidraft/verify/ranked.hpp"
#include "multidraft/verify/ranked_node.hpp"
#include "multidraft/verify/verdict.hpp"

namespace multidraft::verify {

namespace detail {

/// A picked path as `stop_of_block` reads it.
template <class Target, class Real>
struct picked_path {
    tree_view tree;
    Target const& target_rows;
    std::vector<node_id> nodes{0};
    std::vector<Real> weights{Real(1)};
    std::vector<std::vector<double>> laws{};  ///< of the next token, by level

    [[nodiscard]] std::int32_t length() const { return static_cast<std::int32_t>(nodes.size()) - 1; }
    [[nodiscard]] node_id node(std::int32_t level) const { return nodes[static_cast<std::size_t>(level)]; }
    [[nodiscard]] token_id token(std::int32_t level) const {
        return tree.tokens[static_cast<std::size_t>(node(level))];
    }
    [[nodiscard]] Real weight(std::int32_t level) const { return weights[static_cast<std::size_t>(level)]; }
    [[nodiscard]] Target const& target() const { return target_rows; }
    template <group G>
    [[nodiscard]] probabilities<double> conditional(G const&, std::int32_t level) const {
        auto const& law = laws[static_cast<std::size_t>(level)];
        return {law.data(), static_cast<index_t>(law.size())};
    }
};

/// The walk of ranked block verification; `Nested` says whether a child's position comes from its subtree.
template <draft_law Law, bool Nested>
class ranked_walk {
public:
    template <group G, class Target, class Draft, draw_source Source>
    [[nodiscard]] static verdict run(G const& g, tree_view tree, Target const& target_rows, Draft const& draft_rows,
                                     Source& source, std::int32_t position, span<node_id> path, double lumped) {
        auto const& target = named<G>(target_rows, "target");
        auto const& draft = named<G>(draft_rows, "draft");
        using real = probability_of<std::decay_t<decltype(target(g, 0))>>;
        check_tree(tree, target, draft, path);
        auto const size = static_cast<std::size_t>(tree.size());
        std::vector<std::unique_ptr<ranked_node>> nodes(size);
        std::vector<double> positions(size, -1.0);
        auto const build = [&](node_id v, tilt own) {
            auto const children = tree.children(v);
            auto const tokens = tokens_of(tree, children);
            auto const q = draft(g, v);
            for (index_t k = 0; k < children.count; ++k)
                if (!(q(tokens[static_cast<std::size_t>(k)]) > 0)) refuse_node(g, tree, target, draft, v);
            index_t const d = certain_of<Law>(q, tokens);
            auto& node = nodes[static_cast<std::size_t>(v)];
            node = std::make_unique<ranked_node>(target(g, v), q, tokens.first(static_cast<std::size_t>(d)),
                                                 children.count - d, own, lumped);
            if (!node->valid()) refuse_node(g, tree, target, draft, v);
            for (index_t k = d; k < children.count; ++k)
                if (!node->drawn(tokens[static_cast<std::size_t>(k)])) refuse_node(g, tree, target, draft, v);
        };
        auto const position_of = [&](node_id v) {
            double& u = positions[static_cast<std::size_t>(v)];
            if (u < 0) u = source.template uniform<double>(place{position, v}(purpose::rank, 0));
            return u;
        };
        // The draw with the best rank.
        auto const best_of = [&](node_id v, double& rank) {
            auto const children = tree.children(v);
            ranked_node const& node = *nodes[static_cast<std::size_t>(v)];
            node_id best = none;
            rank = 2;
            for (index_t k = node.certain(); k < children.count; ++k) {
                node_id const child = children.first + k;
                double const r = node.rank(tree.tokens[static_cast<std::size_t>(child)], position_of(child));
                if (r < rank) {
                    rank = r;
                    best = child;
                }
            }
            return best;
        };
        if constexpr (Nested) {
            for (node_id v = 0; v < tree.size(); ++v) {
                if (tree.children(v).empty()) continue;
                tilt own;
                if (v > 0) {
                    node_id const parent = tree.parents[static_cast<std::size_t>(v)];
                    own = nodes[static_cast<std::size_t>(parent)]->tilt_of(v - tree.children(parent).first,
                                                                           tree.tokens[static_cast<std::size_t>(v)]);
                }
                build(v, own);
            }
            for (node_id v = tree.size() - 1; v > 0; --v) {
                if (tree.children(v).empty()) continue;
                double rank = 0;
                static_cast<void>(best_of(v, rank));
                positions[static_cast<std::size_t>(v)] = nodes[static_cast<std::size_t>(v)]->position_of_best(rank);
            }
        }

        picked_path<std::decay_t<decltype(target)>, real> picked{tree, target};
        for (node_id v = 0; !tree.children(v).empty() && picked.weights.back() > 0;) {
            if constexpr (!Nested) build(v, {});
            ranked_node const& node = *nodes[static_cast<std::size_t>(v)];
            auto const children = tree.children(v);
            double rank = 0;
            node_id next = best_of(v, rank);
            if (!node.keeps(tree.tokens[static_cast<std::size_t>(next)], position_of(next))) {
                for (index_t k = 0; k < node.certain(); ++k) {
                    double const limit = node.certain_limit(k);
                    if (limit > 0 && position_of(children.first + k) <= limit) {
                        next = children.first + k;
                        break;
                    }
                }
            }
            std::vector<double> law(static_cast<std::size_t>(target.size()));
            for (std::size_t i = 0; i < law.size(); ++i) law[i] = node.law(static_cast<token_id>(i));
            token_id const x = tree.tokens[static_cast<std::size_t>(next)];
            picked.weights.push_back(next_weight(picked.weights.back(), target(g, v)(x),
                                                 static_cast<real>(law[static_cast<std::size_t>(x)])));
            picked.nodes.push_back(next);
            picked.laws.push_back(std::move(law));
            v = next;
        }
        verdict const result = stop_of_block(g, picked, source, position);
        if (result.next == none) refuse_block(g, picked);
        for (std::int32_t k = 0; k < result.accepted; ++k)
            path[static_cast<std::size_t>(k)] = picked.nodes[static_cast<std::size_t>(k) + 1];
        return result;
    }

private:
    [[nodiscard]] static span<token_id const> tokens_of(tree_view tree, node_range children) {
        return tree.tokens.subspan(static_cast<std::size_t>(children.first), static_cast<std::size_t>(children.count));
    }
};

}  // namespace detail

/// Ranked block verification (ours): from the root down, the one child that ranked verification offers, a certain token
/// being picked first where the candidate is refused (`ranked_node::law`); then the picked path, whose conditionals are
/// known exactly, is verified as a block (`stop_of_block`).
///
/// Lossless for `law::iid` and `law::stratified`. Reads the rows of p and q on the picked path only. On the host,
/// exactly: see `ranked_node` for cost and memory.
template <draft_law Law>
class ranked_block {
    static_assert(
        detail::is_ranked_law<Law>,
        "multidraft: verify::ranked_block is for trees drawn independently, law::iid and law::stratified; for "
        "law::sequential use verify::traversal; verify::naive<Law> fits every law");

public:
    using law = Law;
    static constexpr bool lossless = true;

    ranked_block() = default;
    /// `lumped`: see `ranked`.
    explicit ranked_block(double lumped) noexcept : lumped_(lumped) {}

    /// Verifies one tree; see `node_by_node::operator()` for the arguments and the errors.
    template <group G, draft_law Drawn, class Target, class Draft, draw_source Source>
    verdict operator()(G const& g, drafted<Drawn> const& tree, Target const& target, Draft const& draft, Source& source,
                       std::int32_t position, span<node_id> path) const {
        static_assert(std::is_same_v<Drawn, Law>,
                      "multidraft: the tree was drawn by another law than this verifier is for: name the tree's law in "
                      "the verifier, such as verify::ranked_block<law::stratified>");
        return detail::ranked_walk<Law, false>::run(g, tree.tree, target, draft, source, position, path, lumped_);
    }

private:
    double lumped_ = 0x1p-26;
};

}  // namespace multidraft::verify
