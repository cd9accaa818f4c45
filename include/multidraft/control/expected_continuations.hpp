// What followed earlier occurrences of a text's last tokens, each token with the chance that it follows again.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/control/budget_controller.hpp"
#include "multidraft/control/match_rates.hpp"
#include "multidraft/decode/lookup_drafter.hpp"
#include "multidraft/tree/tree_builder.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// The continuations that a `lookup_drafter` would draft, as trees to choose from.
///
/// A continuation whose first tokens were accepted is a match that is so many tokens longer, and a match of so many
/// tokens goes on as before at the rate of `match_rates`. The rates are learnt from the text itself, whatever was
/// drafted of what was found. Memory is kept from step to step.
class expected_continuations {
public:
    /// Forgets the text: the next one is another.
    void forget() noexcept { found_.clear(); }

    /// Counts for the continuations found last how far the text went on with them, and finds those of its end now, of
    /// at most `depth` levels. O(text).
    void find(std::span<token_id const> text, lookup_options const& options, std::int32_t depth, match_rates& rates) {
        learn(text, rates);
        length_ = text.size();
        found_.assign(1, candidate{});
        order_.clear();
        detail::follow_continuations<std::size_t>(text, options, depth,
                                                  [&](std::size_t node, token_id token, std::int32_t matched) {
                                                      std::size_t const there = child_with(node, token);
                                                      if (there != 0) return std::pair(there, false);
                                                      double const rate = rates.rate(matched);
                                                      candidate one{.parent = node, .token = token, .matched = matched};
                                                      one.level = found_[node].level + 1;
                                                      one.reach = found_[node].reach * found_[node].rest * rate;
                                                      found_[node].rest *= 1 - rate;
                                                      found_.push_back(one);
                                                      return std::pair(found_.size() - 1, true);
                                                  });
        for (std::size_t k = 1; k < found_.size(); ++k) order_.push_back(k);
        // A parent comes before its children, which are no likelier and were found later.
        std::sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) {
            return found_[a].reach != found_[b].reach ? found_[a].reach > found_[b].reach : a < b;
        });
    }

    /// Adds the trees of the likeliest tokens to `offers`: as many nodes as each of `budgets`, and all of them where
    /// they are fewer than the largest.
    void offer(std::span<node_id const> budgets, std::vector<tree_offer>& offers) {
        tree_offer one;
        std::size_t next = 0;
        for (candidate& any : found_) any.is_inner = false;
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
            offers.push_back(one);
            ++next;
        }
    }

    /// Adds the likeliest tokens, as many as there are in an offer, to a tree that has its root alone. All children are
    /// certain.
    void add_to(tree_builder& tree, node_id nodes) {
        for (std::size_t const k : std::span(order_).first(static_cast<std::size_t>(nodes))) {
            node_id const parent = found_[found_[k].parent].node;
            found_[k].node = tree.add(parent, found_[k].token);
            tree.set_certain(parent, tree.child_count(parent));
        }
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

    /// The child of a candidate with that token; 0 if there is none.
    [[nodiscard]] std::size_t child_with(std::size_t node, token_id token) const noexcept {
        for (std::size_t k = node + 1; k < found_.size(); ++k)
            if (found_[k].parent == node && found_[k].token == token) return k;
        return 0;
    }
    void learn(std::span<token_id const> text, match_rates& rates) const {
        if (found_.size() < 2) return;
        std::size_t node = 0;
        for (std::size_t t = length_; t < text.size(); ++t) {
            std::size_t next = 0;
            for (std::size_t k = node + 1; k < found_.size() && next == 0; ++k) {
                if (found_[k].parent != node) continue;
                bool const follows = found_[k].token == text[t];
                rates.learn(found_[k].matched, follows);
                if (follows) next = k;
            }
            if (next == 0) return;
            node = next;
        }
    }

    std::size_t length_ = 0;        ///< of the text that was looked at last
    std::vector<candidate> found_;  ///< the root first; empty: nothing was looked for
    std::vector<std::size_t> order_;
};

}  // namespace MULTIDRAFT_NAMESPACE
