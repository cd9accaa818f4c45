// Bug: every path of a tree is verified by itself and the longest accepted one is kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bugs/plain_rejection.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/residual.hpp"
#include "multidraft/verify/verifier.hpp"

namespace multidraft::bugs {

/// The verification of each path alone is lossless, but keeping the longest prefers tokens that are easy to continue.
/// The numbers of the nodes address the draws, so those of two paths are independent.
template <draft_law Law>
struct longest_path : verify::whole_tree<longest_path<Law>, Law> {
    static constexpr multidraft::verify::verifier_traits traits{};
    template <group G, class Target, class Draft, draw_source Source>
    verdict decide_tree(G const& g, drafted<Law> const& drafts, Target const& target, Draft const& draft,
                        Source& source, std::int32_t position, span<node_id> path) const {
        tree_view const tree = drafts.tree;
        std::vector<node_id> longest;
        for (node_id leaf = 0; leaf < tree.size(); ++leaf) {
            if (tree.children(leaf).count > 0) continue;
            std::vector<node_id> nodes;
            for (node_id v = leaf; v > 0; v = tree.parents[at(v)]) nodes.insert(nodes.begin(), v);
            std::size_t accepted = 0;
            for (node_id const v : nodes) {
                node_id const parent = tree.parents[at(v)];
                token_id const x = tree.tokens[at(v)];
                address const site{position, v, purpose::acceptance, leaf};
                if (!source.bernoulli(site, target(g, parent)(x), draft(g, parent)(x))) break;
                ++accepted;
            }
            nodes.resize(accepted);
            if (nodes.size() > longest.size()) longest = nodes;
        }
        verdict result;
        for (node_id const v : longest) path[at(result.accepted++)] = v;
        node_id const end = longest.empty() ? 0 : longest.back();
        draw_site const site{position, end};
        auto row = copy_of(target(g, end));
        if (tree.children(end).count > 0) subtract(row, copy_of(draft(g, end)));
        result.next = bugs::draw(g, row, source, site(purpose::residual, 0));
        return result;
    }
};

}  // namespace multidraft::bugs
