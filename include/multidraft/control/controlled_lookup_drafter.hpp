// Drafts from the text itself where they pay: how much of what followed earlier occurrences is drafted at each step.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/control/budget_controller.hpp"
#include "multidraft/control/controller.hpp"
#include "multidraft/decode/lookup_drafter.hpp"
#include "multidraft/decode/metrics.hpp"
#include "multidraft/decode/step_outcome.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/sampling_params.hpp"
#include "multidraft/tree/topology.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// How often the token after a match was the one that followed its earlier occurrence, by the tokens that matched. The
/// longer the match, the more often it is.
class match_rates {
public:
    static constexpr std::int32_t longest = 8;  ///< longer matches count as this long

    /// `memory`: observations of a length after which one has weight 1/e. Throws `invalid_input` if it is below 1.
    explicit match_rates(double memory = 100) : kept_(1 - 1 / memory) {
        if (!(memory >= 1)) refuse("memory", memory, "counts are kept for 1 observation or more");
    }

    /// The estimate after a match of that many tokens.
    [[nodiscard]] double rate(std::int32_t matched) const noexcept {
        cell const& one = cells_[place(matched)];
        double const before = before_any[place(matched)];
        return (one.accepted + no_counts * before) / (one.tried + no_counts);
    }
    /// Counts one that was drafted and tried.
    void learn(std::int32_t matched, bool accepted) noexcept {
        cell& one = cells_[place(matched)];
        one.tried = kept_ * one.tried + 1;
        one.accepted = kept_ * one.accepted + (accepted ? 1 : 0);
    }

private:
    struct cell {
        double tried = 0;
        double accepted = 0;
    };

    static constexpr double no_counts = 6;  ///< weight of the rates before anything is counted, in observations
    static constexpr std::array<double, static_cast<std::size_t>(longest)> before_any{0.2,  0.35, 0.5,  0.6,
                                                                                      0.68, 0.74, 0.79, 0.83};

    static std::size_t place(std::int32_t matched) noexcept {
        return static_cast<std::size_t>(std::clamp(matched, 1, longest) - 1);
    }

    double kept_;
    std::array<cell, static_cast<std::size_t>(longest)> cells_;
};

/// A `lookup_drafter` that drafts of the continuations what is worth its rows of the target: the tokens that are
/// likeliest to be accepted, as many as the controller chooses, and none where a step without drafts is faster.
///
/// What is expected: a continuation whose first tokens were accepted is a match that is so many tokens longer, and a
/// match of so many tokens has gone on as before at the rate of `match_rates`. The choice depends on the text and on
/// earlier steps alone, so `verify::naive<law::deterministic>` is lossless for it, and what it may lose against
/// drafting nothing is bounded by the controller. Cost: O(text) a step, beside the target's call.
///
/// `Chooser` is a `budget_controller` whose draft takes no time. It and the rates belong to the caller, who keeps them
/// from text to text.
template <class Chooser = budget_controller>
class controlled_lookup_drafter : public lookup_drafter {
public:
    /// Throws `invalid_input` for options that make no sense.
    controlled_lookup_drafter(Chooser& choices, match_rates& rates, lookup_options options = {})
        : lookup_drafter(options), choices_(&choices), rates_(&rates) {}

    void reset() { choices_->start(); }

    template <group G, draw_source Source>
    void grow(G const&, std::span<token_id const> text, std::int32_t depth, sampling_params const&, Source&,
              generation_metrics& m) {
        grow_by(text, m, [&] {
            matched_.assign(1, 0);
            std::int32_t const levels = choices_->levels({text, depth, 1});
            if (levels < 1) return;
            find(text, levels);
            add(choose());
        });
    }

    /// Counts the outcome of the last step, and hands it to the controller.
    void learn(step_outcome const& outcome) {
        for (std::size_t d = 0; d <= outcome.path.size(); ++d) {
            node_range const children = outcome.tree.children(d == 0 ? 0 : outcome.path[d - 1]);
            node_id const taken = d < outcome.path.size() ? outcome.path[d] : none;
            for (index_t k = 0; k < children.count; ++k) {
                node_id const child = children.first + static_cast<node_id>(k);
                rates_->learn(matched_[static_cast<std::size_t>(tree_.node_at(child))], child == taken);
                if (child == taken) break;  // those after it were not tried
            }
        }
        choices_->learn(outcome);
    }

private:
    /// A token that might be drafted.
    struct candidate {
        std::size_t parent = 0;
        token_id token = 0;
        std::int32_t matched = 0;  ///< tokens before it that were the same then
        std::int32_t level = 0;
        double reach = 1;       ///< the chance that it is accepted
        double rest = 1;        ///< that none of the children so far is, once it is accepted
        bool is_inner = false;  ///< some child is offered
        node_id node = 0;       ///< of the tree, once it is drafted
    };

    /// The continuations that a `lookup_drafter` would draft, with their chances.
    void find(std::span<token_id const> text, std::int32_t depth) {
        found_.assign(1, candidate{});
        detail::follow_continuations<std::size_t>(text, options_, depth,
                                                  [&](std::size_t node, token_id token, std::int32_t matched) {
                                                      for (std::size_t k = node + 1; k < found_.size(); ++k)
                                                          if (found_[k].parent == node && found_[k].token == token)
                                                              return std::pair(k, false);
                                                      double const rate = rates_->rate(matched);
                                                      candidate one{.parent = node, .token = token, .matched = matched};
                                                      one.level = found_[node].level + 1;
                                                      one.reach = found_[node].reach * found_[node].rest * rate;
                                                      found_[node].rest *= 1 - rate;
                                                      found_.push_back(one);
                                                      return std::pair(found_.size() - 1, true);
                                                  });
    }
    /// How many of them are drafted, of which `order_` has the likeliest first.
    [[nodiscard]] std::size_t choose() {
        order_.clear();
        for (std::size_t k = 1; k < found_.size(); ++k) order_.push_back(k);
        // A parent comes before its children, which are no likelier and were found later.
        std::sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) {
            return found_[a].reach != found_[b].reach ? found_[a].reach > found_[b].reach : a < b;
        });
        offers_.assign(1, tree_offer{});
        tree_offer one;
        auto const budgets = choices_->budgets();
        std::size_t next = 0;
        for (std::size_t const k : order_) {
            if (next == budgets.size()) break;
            ++one.nodes;
            one.tokens += found_[k].reach;
            one.levels = std::max(one.levels, found_[k].level);
            candidate& parent = found_[found_[k].parent];
            if (!parent.is_inner) ++one.inner;
            parent.is_inner = true;
            bool const is_last = static_cast<std::size_t>(one.nodes) == order_.size();
            if (one.nodes != budgets[next] && !is_last) continue;
            offers_.push_back(one);
            ++next;
        }
        return static_cast<std::size_t>(offers_[choices_->choose(offers_)].nodes);
    }
    void add(std::size_t nodes) {
        for (std::size_t const k : std::span(order_).first(nodes)) {
            found_[k].node = tree_.add(found_[found_[k].parent].node, found_[k].token);
            matched_.push_back(found_[k].matched);
        }
    }

    Chooser* choices_;
    match_rates* rates_;
    std::vector<std::int32_t> matched_;  ///< of the nodes in the order in which they were added
    std::vector<candidate> found_;       ///< the root first
    std::vector<std::size_t> order_;
    std::vector<tree_offer> offers_;
};

}  // namespace MULTIDRAFT_NAMESPACE
