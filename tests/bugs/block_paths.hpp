// Block verification written literally from its formulas, with every row copied: the base of the block bugs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "bugs/plain_rejection.hpp"
#include "multidraft/verify/verdict.hpp"

namespace multidraft::bugs {

/// One path with its weights; `cap` false leaves them above 1.
template <class G, class Target, class Draft>
struct written_block {
    G const& g;
    tree_view tree;
    Target const& target;
    Draft const& draft;
    std::vector<double> weights{1.0};

    written_block(G const& group, tree_view drafted_tree, Target const& p, Draft const& q, bool cap)
        : g(group), tree(drafted_tree), target(p), draft(q) {
        for (node_id v = 1; v < tree.size(); ++v) {
            token_id const x = tree.tokens[at(v)];
            double const w = weights.back() * target(g, v - 1)(x) / draft(g, v - 1)(x);
            weights.push_back(cap ? std::min(1.0, w) : w);
        }
    }

    [[nodiscard]] std::int32_t length() const { return tree.size() - 1; }

    /// (w p - q)+ at a level, p at the last one.
    [[nodiscard]] std::vector<double> left(std::int32_t level) const {
        auto r = copy_of(target(g, level));
        if (level == length()) return r;
        auto const q = copy_of(draft(g, level));
        for (std::size_t i = 0; i < r.size(); ++i) r[i] = std::max(weights[at(level)] * r[i] - q[i], 0.0);
        return r;
    }

    /// The probability to stop at a level, given that the levels below did not.
    [[nodiscard]] double chance(std::int32_t level) const {
        if (level == 0) return 1;
        double const w = weights[at(level)];
        if (level == length()) return w;
        double mass = 0;
        for (double const x : left(level)) mass += x;
        return mass > 0 ? mass / (mass + 1 - w) : 0.0;
    }

    /// Stops at a level.
    template <class Source>
    [[nodiscard]] verdict stop(std::int32_t level, Source& source, std::int32_t position, span<node_id> path) const {
        for (std::int32_t k = 0; k < level; ++k) path[at(k)] = k + 1;
        auto row = left(level);
        double mass = 0;
        for (double const x : row) mass += x;
        if (!(mass > 0)) row = copy_of(target(g, level));
        return {level, bugs::draw(g, row, source, draw_site{position, level}(purpose::residual, 0))};
    }
};

}  // namespace multidraft::bugs
