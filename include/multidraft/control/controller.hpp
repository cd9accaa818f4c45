// The choice of the next tree from a family, which includes no tree: the one with the most expected tokens per second.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "multidraft/analysis/optimal_tree.hpp"
#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/control/acceptance_history.hpp"
#include "multidraft/control/step_times.hpp"
#include "multidraft/decode/step_outcome.hpp"
#include "multidraft/tree/shapes.hpp"
#include "multidraft/tree/topology.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// The input of a controller before a step: everything that has happened so far.
struct step_situation {
    std::span<token_id const> text;  ///< prompt and text so far; the last token is the root
    std::int32_t depth = 0;          ///< the deepest tree that may be grown
    std::int32_t unread = 1;         ///< tokens of the text that the draft model has not read, the root included
};

/// Chooses the shape of each step's tree before any of its draws. The choice may depend on anything in earlier steps
/// and in other requests; the law of the text does not change, whatever the verifier.
///
/// - `depth()`: the deepest tree that it may choose.
/// - `start()`: a new text begins.
/// - `choose(situation)`: the shape of the next tree, no deeper than `situation.depth`, valid until the next call. The
///   root alone drafts nothing.
/// - `learn(outcome)`: the outcome of the shape that was chosen last.
///
/// Not for noise that is fixed by the position in the text (`law_traits::addressed_by_text`): there, different steps
/// share draws.
template <class C>
concept tree_controller = requires(C& controller, C const& fixed, step_situation const& situation,
                                   step_outcome const& outcome) {
    { fixed.depth() } -> std::convertible_to<std::int32_t>;
    controller.start();
    { controller.choose(situation) } -> std::convertible_to<topology const&>;
    controller.learn(outcome);
};

/// The bounds of the family that a controller chooses from, and how it learns.
struct controller_options {
    std::int32_t nodes = 16;    ///< of a tree at most, the root not counted, in [0, 256]
    std::int32_t depth = 6;     ///< levels, in [0, 32]
    std::int32_t children = 4;  ///< of a node at most, in [1, 8]
    double memory = 100;        ///< steps after which a step has weight 1/e in the rates, >= 1
    /// The rate at which one child is accepted before anything is counted, in [1e-6, 1 - 1e-6].
    double prior = 0.6;
    /// The fraction of the time that may be lost compared with drafting nothing, >= 0: if more was lost, nothing is
    /// drafted until it is recovered. `credit` is an additional allowance in steps for each text, so that drafting can
    /// be tried. As they are, a text of 64 tokens or more loses 3 % at most, by the controller's times.
    double slack = 0.0125;
    double credit = 1;
    std::int32_t explore_every = 32;  ///< steps between those that add a standard deviation to rates; 0: never
    std::int32_t search_every = 8;    ///< trees between searches for the optimal trees of the rates; 0: never
    bool learns_times = true;         ///< false: the times stay as given, so that equal seeds give equal texts

    /// Throws `invalid_input` naming the field that is out of its range.
    void validate() const {
        if (nodes < 0 || nodes > 256) refuse("nodes", nodes, "a family has trees of 0 to 256 nodes");
        if (depth < 0 || depth > 32) refuse("depth", depth, "a family has trees of 0 to 32 levels");
        if (children < 1 || children > acceptance_history::most_children)
            refuse("children", children, "a node of a family has 1 to 8 children");
        if (!(slack >= 0)) refuse("slack", slack, "a part of the time is not negative");
        if (!(credit >= 0)) refuse("credit", credit, "a number of steps is not negative");
        acceptance_history::validate(memory, prior);
        if (explore_every < 0) refuse("explore_every", explore_every, "a number of steps is not negative");
        if (search_every < 0) refuse("search_every", search_every, "a number of trees is not negative");
    }
};

/// Chooses at each step the tree, and one of several verifiers, that maximise the expected tokens per second: 1 + the
/// sum of the nodes' probabilities of being accepted, by the rates so far (`acceptance_history`), divided by the step's
/// seconds.
///
/// The family: no tree; chains; k1 x k2 x .. with nonincreasing factors; the optimal trees for the current rates, of
/// several sizes ([Sequoia] 3.1, with the rate increase of each further child). It never reads a clock: it gets the
/// seconds of steps from `learn`. With `learns_times` false it ignores them, and its choices are a function of the
/// text's draws and the times given.
///
/// The loss compared with drafting nothing is bounded by `slack` and `credit`: what steps took (their seconds by the
/// times given, where `learns_times` is false, and for the first steps of a text, which find the caches cold) against
/// what their tokens would have taken. Counts decay while nothing
/// is drafted, so that drafting is tried again when the text may have changed.
///
/// Cost of a choice: O(nodes of the family); where nothing was drafted in the last step, at every eighth step only, for
/// a choice takes some percent of a call of a model that fits in the caches.
class controller {
public:
    /// Throws `invalid_input` for options out of their range and for times that `step_times::validate` refuses.
    explicit controller(step_times times, controller_options const& options = {})
        : times_(std::move(times)), options_(options), all_(options.memory, options.prior) {
        options_.validate();
        times_.validate();
        if (times_.library.size() > 1) by_verifier_.assign(times_.library.size(), all_);
        add(topology());
        for (std::int32_t d = 1; d <= depth(); ++d) add(chain(d));
        std::vector<std::int32_t> factors;
        add_branchings(factors, 1, 0);
        trees_.settled = trees_.members.size();
    }

    /// The deepest tree of the family.
    [[nodiscard]] std::int32_t depth() const noexcept { return std::min(options_.depth, options_.nodes); }

    /// A new text: clears the balance of time of the last text, and most of its rates.
    void start() {
        balance_ = {};
        count_.idle = 0;
        count_.unseen += 2 * options_.memory;
    }

    /// The best shape for the next step; `verifier()` is the verifier that it was chosen for.
    [[nodiscard]] topology const& choose(step_situation const& situation) {
        ++count_.steps;
        choice_.unread = std::max(situation.unread, 1);
        if (count_.idle % idle_steps != 0) return trees_.members.front().shape;
        fade();
        if (is_due(options_.search_every, count_.trees, count_.searched)) search();
        bool const explores = is_due(options_.explore_every, count_.steps, count_.explored);
        double const nothing = seconds_of_nothing();
        double const allowed = balance_.allowed(options_.slack, options_.credit, nothing);
        choice_.tree = 0;
        choice_.verifier = quickest();
        double best = 1 / at_least(nothing);
        for (std::size_t v = 0; v < times_.library.size(); ++v) {
            set_rates(v, explores);
            for (std::size_t c = 1; c < trees_.members.size(); ++c) {
                if (trees_.members[c].shape.max_depth() > situation.depth) continue;
                double const seconds = seconds_of(trees_.members[c], v);
                if (seconds - nothing > allowed) continue;  // the loss if no node is accepted
                double const value = tokens_of(trees_.members[c]) / at_least(seconds);
                if (!(value > best)) continue;
                best = value;
                choice_.tree = c;
                choice_.verifier = static_cast<std::int32_t>(v);
            }
        }
        return trees_.members[choice_.tree].shape;
    }

    /// How many verifiers there are times of.
    [[nodiscard]] std::size_t verifiers() const noexcept { return times_.library.size(); }
    /// The verifier of the shape that was chosen last, by its index in `step_times::library`. The reference stays
    /// valid.
    [[nodiscard]] std::int32_t const& verifier() const noexcept { return choice_.verifier; }

    /// Counts the outcome of the last choice. Throws `invalid_input`, with nothing learnt, for a path that its tree
    /// does not have.
    void learn(step_outcome const& outcome) {
        auto const v = static_cast<std::size_t>(choice_.verifier);
        bool const drafted = choice_.tree != 0;
        if (drafted) acceptance_history::check(trees_.members[choice_.tree].shape, outcome);
        double const expected = drafted ? seconds_of(trees_.members[choice_.tree], v) : seconds_of_nothing();
        balance_.count(outcome, expected, options_.learns_times);
        // The first steps without a tree find the caches full of the draft.
        if (options_.learns_times && (drafted || count_.idle >= idle_steps))
            times_.learn(outcome, v, choice_.unread, scratch_.rows);
        if (!drafted) {
            ++count_.idle;
            ++count_.unseen;
            return;
        }
        count_.idle = 0;
        ++count_.trees;
        fade();
        topology const& shape = trees_.members[choice_.tree].shape;
        all_.learn(shape, outcome);
        for (std::size_t k = 0; k < by_verifier_.size(); ++k) {
            if (k == v)
                by_verifier_[k].learn(shape, outcome);
            else
                by_verifier_[k].pass(1);
        }
    }

    /// The current times.
    [[nodiscard]] step_times const& times() const noexcept { return times_; }
    /// The rates of all verifiers together.
    [[nodiscard]] acceptance_history const& rates() const noexcept { return all_; }
    /// How many trees there are to choose from, including the root alone.
    [[nodiscard]] std::size_t family_size() const noexcept { return trees_.members.size(); }

private:
    /// A tree of the family, with the terms of its value.
    struct member {
        /// A node but the root.
        struct child {
            std::size_t parent;
            std::int32_t level;  ///< of the parent
            std::int32_t siblings;
            std::int32_t rank;
        };
        topology shape;
        std::vector<child> children;  ///< nodes 1, 2, ..
        double inner = 0;             ///< nodes with children
    };

    static constexpr double other_verifiers = 40;  ///< weight of the other verifiers' rates, in nodes
    /// Steps without a tree from one choice to the next, and until the target has the caches for itself.
    static constexpr std::int32_t idle_steps = 8;

    /// Whether the count has increased by `every` since it was `last`, which is then set to it; never for 0.
    [[nodiscard]] static bool is_due(std::int32_t every, std::int64_t count, std::int64_t& last) noexcept {
        if (every == 0 || count - last < every) return false;
        last = count;
        return true;
    }
    /// Lets the counts decay by the steps without a tree.
    void fade() {
        if (!(count_.unseen > 0)) return;
        all_.pass(count_.unseen);
        for (auto& history : by_verifier_) history.pass(count_.unseen);
        count_.unseen = 0;
    }

    /// Avoids division by 0.
    static double at_least(double seconds) noexcept { return std::max(seconds, 1e-12); }

    void add(topology shape) {
        for (member const& m : trees_.members)
            if (m.shape == shape) return;
        member one;
        for (node_id v = 0; v < shape.size(); ++v) {
            one.inner += shape.child_count(v) > 0 ? 1 : 0;
            if (v == 0) continue;
            node_id const up = shape.parent(v);
            one.children.push_back(
                {static_cast<std::size_t>(up), shape.depth(up), shape.child_count(up), v - shape.first_child(up)});
        }
        one.shape = std::move(shape);
        trees_.largest = std::max(trees_.largest, one.children.size() + 1);
        trees_.members.push_back(std::move(one));
    }

    /// k1 x k2 x .. with nonincreasing factors, within the bounds.
    void add_branchings(std::vector<std::int32_t>& factors, std::int64_t width, std::int64_t used) {
        if (static_cast<std::int32_t>(factors.size()) == depth()) return;
        std::int32_t const most = factors.empty() ? options_.children : factors.back();
        for (std::int32_t k = 1; k <= most && used + width * k <= options_.nodes; ++k) {
            factors.push_back(k);
            add(branching(factors));
            add_branchings(factors, width * k, used + width * k);
            factors.pop_back();
        }
    }

    /// The optimal trees for the current rates, replacing those of the last search. The rate of a rank is the increase
    /// by one more child.
    void search() {
        choice_.tree = 0;
        trees_.members.resize(trees_.settled);
        auto const rates = all_.rank_rates(depth(), options_.children);
        auto const trees = analysis::optimal_trees(rates, options_.nodes);
        for (std::int32_t nodes = 2; nodes <= options_.nodes; nodes += std::max(1, nodes / 3)) add(trees(nodes));
    }

    /// The verifier that takes the least time when nothing is drafted.
    [[nodiscard]] std::int32_t quickest() const noexcept {
        std::size_t best = 0;
        for (std::size_t v = 1; v < times_.library.size(); ++v)
            if (times_.library[v].step < times_.library[best].step) best = v;
        return static_cast<std::int32_t>(best);
    }
    [[nodiscard]] double seconds_of_nothing() const {
        return times_.target(1) + times_.library[static_cast<std::size_t>(quickest())].step;
    }
    [[nodiscard]] double seconds_of(member const& m, std::size_t verifier) const {
        double seconds =
            times_.target(m.shape.size()) + times_.library[verifier].step + m.inner * times_.library[verifier].inner;
        if (times_.draft_in_one_call) return seconds + times_.draft(m.shape.max_depth());
        seconds += times_.draft(choice_.unread);
        for (std::int32_t d = 1; d < m.shape.max_depth(); ++d) seconds += times_.draft(m.shape.level(d).count);
        return seconds;
    }

    /// The rates of a verifier: its own or, where it was rarely used, those of all verifiers. If `explores`, one
    /// standard deviation is added.
    void set_rates(std::size_t verifier, bool explores) {
        scratch_.rates.resize(static_cast<std::size_t>(acceptance_history::levels * acceptance_history::most_children));
        for (std::int32_t n = 1; n <= acceptance_history::most_children; ++n) {
            double const all = all_.tried(n);
            for (std::int32_t level = 0; level < acceptance_history::levels; ++level) {
                double rate = all_.rate(level, n);
                if (!by_verifier_.empty()) {
                    double const own = by_verifier_[verifier].tried(n);
                    rate = (own * by_verifier_[verifier].rate(level, n) + other_verifiers * rate) /
                           (own + other_verifiers);
                }
                if (explores) rate += std::sqrt(rate * (1 - rate) / (all + 4));
                scratch_.rates[place(level, n)] = std::min(rate, 1.0);
            }
        }
    }
    static std::size_t place(std::int32_t level, std::int32_t n) noexcept {
        return static_cast<std::size_t>(std::min(level, acceptance_history::levels - 1) *
                                            acceptance_history::most_children +
                                        std::min(n, acceptance_history::most_children) - 1);
    }

    /// Expected tokens of a step, by the rates that were set.
    [[nodiscard]] double tokens_of(member const& m) {
        scratch_.reach.resize(trees_.largest);
        scratch_.reach[0] = 1;
        double tokens = 1;
        for (std::size_t k = 0; k < m.children.size(); ++k) {
            auto const& c = m.children[k];
            double const reach =
                scratch_.reach[c.parent] * scratch_.rates[place(c.level, c.siblings)] * all_.share(c.siblings, c.rank);
            scratch_.reach[k + 1] = reach;
            tokens += reach;
        }
        return tokens;
    }

    /// The trees to choose from.
    struct family {
        std::vector<member> members;  ///< the root alone first
        std::size_t settled = 0;      ///< permanent members; the rest come from the last search
        std::size_t largest = 1;      ///< nodes of the largest tree so far
    };
    /// What the next step drafts and how it is verified.
    struct choice {
        std::size_t tree = 0;
        std::int32_t verifier = 0;
        std::int32_t unread = 1;
    };
    struct counts {
        std::int64_t steps = 0;
        std::int64_t trees = 0;
        std::int64_t searched = 0;  ///< trees before the last search
        std::int64_t explored = 0;  ///< the step that last added a standard deviation
        std::int32_t idle = 0;      ///< steps since the last tree
        double unseen = 0;          ///< steps by which the counts have yet to decay
    };
    struct scratch {
        std::vector<double> rates;
        std::vector<double> reach;
        std::vector<std::int32_t> rows;
    };

    step_times times_;
    controller_options options_;
    acceptance_history all_;
    std::vector<acceptance_history> by_verifier_;  ///< none where there is one verifier
    family trees_;
    choice choice_;
    counts count_;
    detail::time_balance balance_;  ///< of this text
    scratch scratch_;
};

static_assert(tree_controller<controller>);

}  // namespace MULTIDRAFT_NAMESPACE
