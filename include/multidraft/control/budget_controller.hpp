// How many nodes the tree of a step has, chosen from what the rows of a block drafter promise for each number.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/control/acceptance_history.hpp"
#include "multidraft/control/asked_levels.hpp"
#include "multidraft/control/controller.hpp"
#include "multidraft/control/step_times.hpp"
#include "multidraft/decode/step_outcome.hpp"
#include "multidraft/tree/topology.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// Below this temperature of the draft its likeliest tokens are nearly certain, and trees are made of them.
inline constexpr float nearly_greedy_temperature = 0.3F;

/// A tree that the rows of a step offer.
struct tree_offer {
    node_id nodes = 0;  ///< the root not counted
    node_id inner = 0;  ///< with children
    double tokens = 0;  ///< expected accepted nodes
    /// Of its deepest node; 0: as many as were asked for.
    std::int32_t levels = 0;
};

/// How a `budget_controller` chooses; the fields that `controller_options` has too mean the same.
struct budget_options {
    std::int32_t nodes = 32;   ///< of a tree at most, the root not counted, in [1, 256]
    std::int32_t levels = 64;  ///< asked of the drafter at most, >= 1
    double memory = 100;
    double slack = 0.0125;
    double credit = 4;
    bool learns_times = true;

    /// Throws `invalid_input` naming the field that is out of its range.
    void validate() const {
        if (nodes < 1 || nodes > 256) refuse("nodes", nodes, "a tree from rows has 1 to 256 nodes");
        if (levels < 1) refuse("levels", levels, "a drafter is asked for one level or more");
        if (!(slack >= 0)) refuse("slack", slack, "a part of the time is not negative");
        if (!(credit >= 0)) refuse("credit", credit, "a number of steps is not negative");
        acceptance_history::validate(memory);
    }
};

/// Chooses before a step whether it drafts and of how many levels the drafter gives rows, and from these rows which of
/// the trees that they offer.
///
/// The tree is the one with the most expected tokens less the price of its seconds. The price is the tokens per second
/// of the steps so far: that maximises the tokens per second of the whole text, where the most tokens per second of
/// each step would buy too many nodes in steps that promise little. What is expected by the rows is corrected by what
/// came about: at each level and for each number of children the ratio of the rates of two `acceptance_history`, of
/// outcomes and of expectations.
///
/// The choice depends on rows and on earlier steps, on no draw of the step: every verifier is lossless for it that
/// allows the shape. It never reads a clock; with `learns_times` false it is a function of the text's draws and the
/// times given. Loss compared with drafting nothing is bounded as that of a `controller`; the credit is larger, because
/// drafts that pay a little lose in the first steps of many texts. Besides, it asks seldom where drafts promise too
/// little, and not for a while where they have lost. One verifier; the times of the draft are those of one call for all
/// levels.
class budget_controller {
public:
    /// Throws `invalid_input` for options out of their range and for times that `step_times::validate` refuses.
    explicit budget_controller(step_times times, budget_options const& options = {})
        : times_(std::move(times)),
          options_(options),
          rates_{acceptance_history(options.memory), acceptance_history(options.memory)} {
        options_.validate();
        times_.validate();
        times_.draft_in_one_call = true;
        for (node_id n = 1; n < options_.nodes; n *= 2) budgets_.push_back(n);
        budgets_.push_back(options_.nodes);
    }

    /// A new text: clears the balance of time of the last text, and most of its rates.
    void start() {
        balance_ = {};
        count_.idle = 0;
        count_.interval = 1;
        count_.unseen += 2 * options_.memory;
    }

    /// How many levels the next step asks the drafter for, at most those of the situation. At 0 it is not called, and
    /// the step has the root alone.
    [[nodiscard]] std::int32_t levels(step_situation const& situation) {
        step_.chances.clear();
        step_.shape = topology();
        step_.levels = 0;
        if (situation.depth < 1 || count_.idle % count_.interval != 0) return 0;
        fade();
        if ((past_.gain < -most_lost && past_.realised < 0) || past_.realised < -most_lost_tokens) {
            count_.interval = longest_interval();
            return 0;
        }
        step_.levels = asked_.choose(std::min(situation.depth, options_.levels), times_.draft, step_.price);
        if (times_.draft(step_.levels) > allowed()) step_.levels = 0;
        return step_.levels;
    }

    /// The numbers of nodes for which trees are offered: 1, 2, 4, .. and the largest.
    [[nodiscard]] std::span<node_id const> budgets() const noexcept { return budgets_; }

    /// The factor by which one of n children at a level has been accepted more often than the rows said.
    [[nodiscard]] double correction(std::int32_t level, std::int32_t n) const noexcept {
        return rates_.outcomes.rate(level, n) / rates_.expectations.rate(level, n);
    }

    /// The index of the best offer, of which the first is the root alone. O(offers). Throws `invalid_input` for no
    /// offer, and for a first one of another tree.
    [[nodiscard]] std::size_t choose(std::span<tree_offer const> offers) {
        if (offers.empty()) refuse("offers.size", 0, "the root alone is offered always");
        if (offers[0].nodes != 0) refuse("offers", 0, offers[0].nodes, "the first offer is the root alone, of 0 nodes");
        double const nothing = seconds_of_nothing();
        std::size_t quickest = 0;
        auto const rate = [&](std::size_t k) { return (1 + offers[k].tokens) / at_least(seconds_of(offers[k])); };
        for (std::size_t k = 1; k < offers.size(); ++k)
            if (rate(k) > rate(quickest)) quickest = k;
        double const price =
            std::max(1 / at_least(nothing), (past_.tokens + first * (1 + offers[quickest].tokens)) /
                                                at_least(past_.seconds + first * seconds_of(offers[quickest])));
        auto const worth = [&](std::size_t k) { return offers[k].tokens - price * seconds_of(offers[k]); };
        double const most = nothing + allowed();
        std::size_t best = 0;
        for (std::size_t k = 1; k < offers.size(); ++k)
            if (!(seconds_of(offers[k]) > most) && worth(k) > worth(best)) best = k;
        step_.least = least_of(offers[best], price);
        step_.price = price;
        // What the best tree of each depth is worth, the call of the drafter apart.
        auto& of_depth = scratch_.worth;
        of_depth.assign(static_cast<std::size_t>(step_.levels) + 1, 0.0);
        double const apart = price * (nothing + times_.draft(std::max(step_.levels, 1)));
        for (std::size_t k = 1; k < offers.size(); ++k) {
            auto const levels = std::min(offers[k].levels > 0 ? offers[k].levels : step_.levels, step_.levels);
            double& most_of = of_depth[static_cast<std::size_t>(levels)];
            most_of = std::max(most_of, worth(k) + apart);
        }
        for (std::size_t l = 1; l < of_depth.size(); ++l) of_depth[l] = std::max(of_depth[l], of_depth[l - 1]);
        asked_.learn(of_depth);
        double const tokens = 1 + offers[best].tokens;
        double const seconds = seconds_of(offers[best]);
        past_.tokens += tokens;
        past_.seconds += seconds;
        past_.gain += tokens / (1 + least_gain) - seconds / at_least(nothing);
        return best;
    }

    /// What a node of the chosen tree costs, in accepted tokens, for `reach_shape`: 1 / nodes or more.
    [[nodiscard]] double least() const noexcept { return step_.least; }

    /// What the rows say, without correction, of the nodes of the chosen tree: the chance of each once its parent is
    /// accepted (`draft::shape_chances`). Throws `invalid_input` for another number of chances than nodes, and for one
    /// outside [0, 1].
    void expect(topology const& shape, std::span<double const> chances) {
        acceptance_history::check_chances(shape, chances);
        step_.shape = shape;
        step_.chances.assign(chances.begin(), chances.end());
    }

    /// Counts the outcome of the step. Where nothing was expected of its tree, only its seconds. Throws
    /// `invalid_input`, with nothing learnt, for a path that the tree does not have.
    void learn(step_outcome const& outcome) {
        bool const called = step_.levels > 0;
        bool const expects =
            step_.chances.size() > 1 && step_.chances.size() == static_cast<std::size_t>(step_.shape.size());
        if (called && expects) acceptance_history::check(step_.shape, outcome);
        std::int32_t const inner = draft_calls(outcome.tree, 1, scratch_.rows);
        double const expected = called ? seconds_of({outcome.tree.size() - 1, inner, 0}) : seconds_of_nothing();
        balance_.count(outcome, expected, options_.learns_times);
        if (options_.learns_times && (called || count_.idle >= idle_steps))
            times_.learn(outcome, 0, 1, scratch_.rows, step_.levels);
        ++count_.unseen;
        if (!called) {
            ++count_.idle;
            return;
        }
        bool const drafted = outcome.tree.size() > 1;
        past_.realised += 1 + static_cast<double>(outcome.path.size()) - expected / at_least(seconds_of_nothing());
        // A step that promises little says nothing of a text whose drafts have paid. Else the drafter is asked again 2
        // steps later, then 4, 8, ..
        if (drafted || past_.gain > 0 || longest_interval() == idle_steps) {
            count_.idle = 0;
            count_.interval = 1;
        } else {
            count_.idle = 1;
            count_.interval = std::min(2 * count_.interval, longest_interval());
        }
        fade();
        if (!expects) return;
        rates_.outcomes.learn(step_.shape, outcome);
        rates_.expectations.learn_expected(step_.shape, outcome, step_.chances);
    }

    /// The current times.
    [[nodiscard]] step_times const& times() const noexcept { return times_; }

private:
    /// Without drafts, until the next choice, where drafts take no call; or until the time without drafts is learnt: a
    /// call of the drafter takes caches from the next calls of the target.
    static constexpr std::int32_t idle_steps = 8;
    static constexpr std::int32_t most_idle_steps = 64;
    static constexpr double first = 4;             ///< weight of the step itself in the price, in steps
    static constexpr double most_lost = 1;         ///< of tokens expected, before nothing is drafted
    static constexpr double most_lost_tokens = 3;  ///< of those that came
    /// By how much steps with drafts are to be faster: the best of several offers promises more than it holds, and
    /// times that were measured apart are of warmer caches.
    static constexpr double least_gain = 0.04;

    static double at_least(double seconds) noexcept { return std::max(seconds, 1e-12); }
    /// Where drafts take no call, as those from the text, nothing is gained by asking seldom.
    [[nodiscard]] std::int32_t longest_interval() const { return times_.draft(1) > 0 ? most_idle_steps : idle_steps; }
    [[nodiscard]] double seconds_of_nothing() const { return times_.target(1) + times_.library[0].step; }
    [[nodiscard]] double seconds_of(tree_offer const& one) const {
        return times_.target(one.nodes + 1) + times_.draft(std::max(step_.levels, 1)) + times_.library[0].step +
               one.inner * times_.library[0].inner;
    }
    [[nodiscard]] double allowed() const {
        return balance_.allowed(options_.slack, options_.credit, seconds_of_nothing());
    }
    /// What a node of the best offer costs, in tokens.
    [[nodiscard]] double least_of(tree_offer const& best, double price) const {
        if (best.nodes == 0) return 1;
        double const rows = times_.target(2 * best.nodes + 1) - times_.target(best.nodes + 1);
        double const each = (rows + best.inner * times_.library[0].inner) / best.nodes;
        return std::clamp(price * each, 1.0 / options_.nodes, 1.0);
    }
    /// Lets what was counted decay by the steps since.
    void fade() {
        if (!(count_.unseen > 0)) return;
        // A step that is counted decays the histories itself.
        if (count_.unseen > 1) {
            rates_.outcomes.pass(count_.unseen - 1);
            rates_.expectations.pass(count_.unseen - 1);
        }
        double const kept = std::pow(1 - 1 / options_.memory, count_.unseen);
        past_ = {kept * past_.tokens, kept * past_.seconds, kept * past_.gain, kept * past_.realised};
        count_.unseen = 0;
    }

    /// Expected, of the steps that called the drafter; decaying.
    struct sums {
        double tokens = 0;
        double seconds = 0;
        double gain = 0;      ///< tokens beyond those that the same seconds have without drafts, and `least_gain`
        double realised = 0;  ///< the same of the tokens that came, of which `gain` has those expected
    };

    struct rates {
        acceptance_history outcomes;
        acceptance_history expectations;  ///< by the rows
    };
    struct counts {
        std::int32_t idle = 0;  ///< steps since the last call of the drafter
        std::int32_t interval = 1;
        double unseen = 0;  ///< steps by which the counts have yet to decay
    };
    struct scratch {
        std::vector<std::int32_t> rows;
        std::vector<double> worth;  ///< of the best tree by its depth, in tokens
    };
    /// The step that was chosen last.
    struct present {
        std::int32_t levels = 0;  ///< asked of the drafter; 0: it is not called
        double least = 1;
        double price = 0;  ///< tokens a second, of the last choice
        topology shape;
        std::vector<double> chances;
    };

    step_times times_;
    budget_options options_;
    rates rates_;
    std::vector<node_id> budgets_;
    detail::time_balance balance_;  ///< of this text
    sums past_;
    counts count_;
    asked_levels asked_;
    present step_;
    scratch scratch_;
};

}  // namespace MULTIDRAFT_NAMESPACE
