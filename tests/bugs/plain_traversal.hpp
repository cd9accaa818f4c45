// Traversal verification written literally from its formulas, by recursion over copied rows: the base of its bugs. This
// one is lossless; a bug overrides one of its rules.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "bugs/plain_rejection.hpp"
#include "multidraft/verify/verdict.hpp"
#include "multidraft/verify/verifier.hpp"

namespace multidraft::bugs {

/// The correct rules for the parent of a refused child.
struct traversal_rules {
    /// The parent's weight, from the mass S of (w r - d)+ and the remaining mass of q.
    static double weight(double w, double mass, double /*left*/) {
        double const rest = mass + 1 - w;
        return rest > 1e-300 ? mass / rest : 1.0;
    }
    /// Whether the residual is updated by r <- Norm[(w r - d)+]; else by r <- Norm[(r - d)+].
    static constexpr bool weighs_target = true;
    /// Whether a refused token is removed from d, for drafts without replacement.
    static constexpr bool takes_out = true;
    /// Whether an inner node whose children were all refused is decided as a leaf.
    static constexpr bool decides_inner_nodes = true;
};

/// Traversal by recursion.
template <draft_law Law, class Rules = traversal_rules>
struct plain_traversal : verify::whole_tree<plain_traversal<Law, Rules>, Law> {
    static constexpr multidraft::verify::verifier_traits traits{.lossless = true};

    template <class G, class Target, class Draft, class Source>
    verdict decide_tree(G const& g, drafted<Law> const& drafts, Target const& target, Draft const& draft,
                        Source& source, std::int32_t position, span<node_id> path) const {
        node_id end = none;
        token_id token = none;
        visit(g, drafts.tree, target, draft, source, position, 0, 1.0, end, token);
        verdict const result{drafts.tree.depth(end), token};
        for (std::int32_t k = result.accepted; k-- > 0; end = drafts.tree.parents[at(end)]) path[at(k)] = end;
        return result;
    }

private:
    template <class G, class Target, class Draft, class Source>
    static void visit(G const& g, tree_view tree, Target const& target, Draft const& draft, Source& source,
                      std::int32_t position, node_id node, double w, node_id& end, token_id& token) {
        auto r = copy_of(target(g, node));
        auto const children = tree.children(node);
        if (children.count > 0) {
            auto d = copy_of(draft(g, node));
            double left = 1;
            for (node_id child = children.first; child < children.end(); ++child) {
                token_id const x = tree.tokens[at(child)];
                double const below = d[at(x)] > 0 ? std::min(1.0, w * r[at(x)] / d[at(x)]) : 1.0;
                visit(g, tree, target, draft, source, position, child, below, end, token);
                if (end != none) return;
                double mass = 0;
                std::vector<double> rest(r.size());
                for (std::size_t i = 0; i < r.size(); ++i) {
                    rest[i] = std::max((Rules::weighs_target ? w : 1.0) * r[i] - d[i], 0.0);
                    mass += std::max(w * r[i] - d[i], 0.0);
                }
                w = Rules::weight(w, mass, left);
                if (std::any_of(rest.begin(), rest.end(), [](double a) { return a > 0; })) {
                    r = rest;
                    normalise(r);
                }
                if constexpr (std::is_same_v<Law, multidraft::law::sequential> && Rules::takes_out) {
                    left -= draft(g, node)(x);
                    take_out(d, x);
                }
            }
            if (!Rules::decides_inner_nodes && node != 0) return;
        }
        draw_site const site{position, node};
        if (node != 0 && !source.bernoulli(site(purpose::acceptance, 0), w, 1.0)) return;
        end = node;
        token = bugs::draw(g, r, source, site(purpose::residual, 0));
    }
};

}  // namespace multidraft::bugs
