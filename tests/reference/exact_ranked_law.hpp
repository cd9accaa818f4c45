// The exact law of ranked block verification, whose ranks are continuous, by enumeration of the selected path.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/draft/certain.hpp"
#include "multidraft/rows/probabilities.hpp"
#include "multidraft/testing/exact_law.hpp"
#include "multidraft/testing/small_step.hpp"
#include "multidraft/verify/detail/block_weights.hpp"
#include "multidraft/verify/detail/rank_table.hpp"
#include "reference/ranked_node.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

namespace detail {

/// One selected path on the way down, and its block verification on the way up.
template <bool Nested, class Sampler>
class ranked_paths {
public:
    ranked_paths(Sampler sampler, shape const& children, model_pair const& models, shape_rule const& rule)
        : sampler_(sampler), children_(children), models_(models), rule_(rule) {}

    [[nodiscard]] output_law run() {
        walk(0, 1.0, {});
        return result_;
    }

private:
    struct level {
        std::vector<double> law;  ///< of the next token
        double weight;
        std::size_t context;
    };

    void walk(std::size_t context, double chance, reference::conditional_cdf own) {
        double weight = 1;
        if (!levels_.empty())
            weight = verify::detail::next_weight(levels_.back().weight, models_.target[levels_.back().context][last()],
                                                 levels_.back().law[last()]);
        if (levels_.size() == children_.size() || !(weight > 0)) {
            stop(context, chance, weight);
            return;
        }
        auto const& p = models_.target[context];
        auto const& q = models_.draft[context];
        auto const size = static_cast<index_t>(p.size());
        index_t const wanted = children_of_path(q);
        if (wanted == 0) {
            stop(context, chance, weight);
            return;
        }
        draft::certain_selection const chosen(sampler_, q, wanted);
        double certain_mass = 0;
        for (token_id const x : chosen.tokens) certain_mass += p[static_cast<std::size_t>(x)];
        if (chosen.draws == 0 && certain_mass < verify::detail::least_certain) {
            stop(context, chance, weight);
            return;
        }
        reference::ranked_node const node(probabilities<double>(p.data(), size), probabilities<double>(q.data(), size),
                                          span<token_id const>(chosen.tokens), chosen.draws, own);
        if (!node.valid()) throw std::logic_error("a node has no sets");
        levels_.push_back({std::vector<double>(p.size()), weight, context});
        for (token_id x = 0; x < size; ++x) levels_.back().law[static_cast<std::size_t>(x)] = node.law(x);
        for (token_id x = 0; x < size; ++x) {
            double const m = levels_.back().law[static_cast<std::size_t>(x)];
            if (!(m > 0)) continue;
            reference::conditional_cdf next;
            if constexpr (Nested) {
                auto const found = std::find(chosen.tokens.begin(), chosen.tokens.end(), x);
                next = node.conditional_cdf_of(static_cast<index_t>(found - chosen.tokens.begin()), x);
            }
            path_.push_back(x);
            walk(models_.target.after(context, x), chance * m, next);
            path_.pop_back();
        }
        levels_.pop_back();
    }

    /// The number of children of the path's last node: the rule sees that path alone.
    [[nodiscard]] index_t children_of_path(std::vector<double> const& q) const {
        std::vector<node_id> parents{none};
        std::vector<token_id> tokens{0};
        for (token_id const x : path_) {
            parents.push_back(static_cast<node_id>(parents.size()) - 1);
            tokens.push_back(x);
        }
        auto const depth = static_cast<std::int32_t>(path_.size());
        return rule_({parents, tokens}, depth, depth, q, children_[levels_.size()]);
    }

    [[nodiscard]] std::size_t last() const { return static_cast<std::size_t>(path_.back()); }

    void stop(std::size_t context, double chance, double weight) {
        double alive = chance;
        for (std::size_t i = path_.size() + 1; i-- > 0;) {
            bool const whole = i == path_.size();
            auto const& p = models_.target[whole ? context : levels_[i].context];
            double const w = whole ? weight : levels_[i].weight;
            double h = w;
            std::vector<double> next = p;
            if (!whole) {
                double mass = 0;
                for (std::size_t x = 0; x < p.size(); ++x)
                    mass += next[x] = std::max(w * p[x] - levels_[i].law[x], 0.0);
                h = mass > 0 ? mass / (mass + (1 - w)) : 0;
                if (mass > 0)
                    for (double& x : next) x /= mass;
                else
                    next = p;
            }
            if (i == 0) h = 1;
            double const here = alive * h;
            alive -= here;
            if (!(here > 0)) continue;
            result_.mean_accepted += here * static_cast<double>(i);
            ++result_.branches;
            for (std::size_t x = 0; x < p.size(); ++x) {
                if (!(next[x] > 0)) continue;
                text out(path_.begin(), path_.begin() + static_cast<std::ptrdiff_t>(i));
                out.push_back(static_cast<token_id>(x));
                std::size_t at = 0;
                for (token_id const t : out) at = models_.target.after(at, t);
                complete(models_.target, out, at, children_.size() + 1, here * next[x], result_.law);
            }
        }
    }

    Sampler sampler_;
    shape const& children_;
    model_pair const& models_;
    shape_rule const& rule_;
    std::vector<level> levels_;
    text path_;
    output_law result_;
};

}  // namespace detail

/// `law_of_step` for `draft::stratified` or `draft::iid` and `verify::ranked_block`, or `nested_ranked_block`: ranks
/// and quantiles are integrated out by the verifier's own distribution functions (`reference::ranked_node`); paths and
/// their block verification are enumerated. Every token has its own set: nothing is pooled. A rule sees only the path
/// to a node, its own context.
template <bool Nested, class Sampler>
[[nodiscard]] output_law law_of_ranked_step(Sampler sampler, shape const& children, model_pair const& models,
                                            shape_rule const& rule = {}) {
    return detail::ranked_paths<Nested, Sampler>(sampler, children, models, rule).run();
}

}  // namespace MULTIDRAFT_NAMESPACE::testing
