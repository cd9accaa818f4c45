// The exact law of ranked block verification, whose ranks are continuous: over the paths that can be picked.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <type_traits>
#include <vector>

#include "multidraft/core/config.hpp"
#include "multidraft/core/span.hpp"
#include "multidraft/decode/exact_law.hpp"
#include "multidraft/distribution/certainty.hpp"
#include "multidraft/distribution/probabilities.hpp"
#include "multidraft/draft/law.hpp"
#include "multidraft/verify/block_weights.hpp"
#include "multidraft/verify/ranked_block.hpp"
#include "multidraft/verify/ranked_node.hpp"

namespace multidraft::exact {

namespace detail {

/// The tokens that `law` takes with certainty for n children of a node, most likely first, and how many draws are left.
template <class Law>
struct certain_selection {
    std::vector<token_id> tokens;
    index_t draws;

    certain_selection(std::vector<double> const& q, index_t n) : draws(n) {
        auto const support = static_cast<index_t>(std::count_if(q.begin(), q.end(), [](double x) { return x > 0; }));
        if constexpr (!std::is_same_v<Law, law::iid>) {
            tokens.resize(q.size());
            std::iota(tokens.begin(), tokens.end(), 0);
            std::stable_sort(tokens.begin(), tokens.end(), [&](token_id a, token_id b) {
                return q[static_cast<std::size_t>(a)] > q[static_cast<std::size_t>(b)];
            });
            probabilities<double> const row(q.data(), static_cast<index_t>(q.size()));
            index_t certain = certain_children(row, span<token_id const>(tokens), n, Law::theta_thousandths / 1000.0);
            draws = n - certain;
            if (certain >= support) {  // drawn as a whole: the last of them is the one draw
                certain = support - 1;
                draws = 1;
            }
            tokens.resize(static_cast<std::size_t>(certain));
        }
    }
};

/// One picked path on its way down, and what block verification makes of it on its way up.
template <class Law, bool Nested>
class ranked_paths {
public:
    ranked_paths(shape const& children, model_pair const& models) : children_(children), models_(models) {}

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

    void walk(std::size_t context, double chance, verify::tilt own) {
        double weight = 1;
        if (!levels_.empty())
            weight = verify::next_weight(levels_.back().weight, models_.target[levels_.back().context][last()],
                                         levels_.back().law[last()]);
        if (levels_.size() == children_.size()) {
            stop(context, chance, weight);
            return;
        }
        auto const& p = models_.target[context];
        auto const& q = models_.draft[context];
        auto const size = static_cast<index_t>(p.size());
        certain_selection<Law> const chosen(q, children_[levels_.size()]);
        verify::ranked_node const node(probabilities<double>(p.data(), size), probabilities<double>(q.data(), size),
                                       span<token_id const>(chosen.tokens), chosen.draws, own);
        levels_.push_back({std::vector<double>(p.size()), weight, context});
        for (token_id x = 0; x < size; ++x) levels_.back().law[static_cast<std::size_t>(x)] = node.law(x);
        for (token_id x = 0; x < size; ++x) {
            double const m = levels_.back().law[static_cast<std::size_t>(x)];
            if (!(m > 0)) continue;
            verify::tilt next;
            if constexpr (Nested) {
                auto const found = std::find(chosen.tokens.begin(), chosen.tokens.end(), x);
                next = node.tilt_of(static_cast<index_t>(found - chosen.tokens.begin()), x);
            }
            path_.push_back(x);
            walk(models_.target.after(context, x), chance * m, next);
            path_.pop_back();
        }
        levels_.pop_back();
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
                h = mass + 1 - w > 1e-300 ? mass / (mass + 1 - w) : 0;
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

    shape const& children_;
    model_pair const& models_;
    std::vector<level> levels_;
    text path_;
    output_law result_;
};

}  // namespace detail

/// `law_of_step` for `draft::stratified` or `draft::iid` and `verify::ranked_block`, or `nested_ranked_block`: ranks
/// and positions are integrated over by the verifier's own distribution functions (`verify::ranked_node`), paths and
/// what block verification does with them are enumerated. Every token has a set of its own: nothing is lumped.
///
/// The children of a node are drawn from the whole support even where it is small, as the samplers do.
template <draft_law Law, bool Nested>
[[nodiscard]] output_law law_of_ranked_step(shape const& children, model_pair const& models) {
    return detail::ranked_paths<Law, Nested>(children, models).run();
}

}  // namespace multidraft::exact
