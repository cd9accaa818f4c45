// The choice of the trees of a batch's requests, which come and go: one budget of rows, shared by expected gain.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
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
#include "multidraft/control/shared_budget.hpp"
#include "multidraft/control/step_times.hpp"
#include "multidraft/decode/shape_chooser.hpp"
#include "multidraft/decode/step_outcome.hpp"
#include "multidraft/tree/topology.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// The bounds of the trees of a batch, and how their rates are learnt.
struct batch_controller_options {
    std::int32_t nodes = 512;   ///< of all trees of a step at most, the roots not counted, in [0, most_nodes]
    std::int32_t depth = 6;     ///< levels of a tree, in [0, 32]
    std::int32_t children = 4;  ///< of a node at most, in [1, 8]
    double memory = 100;        ///< steps of a request after which a step has weight 1/e in its rates, >= 1
    /// The rate at which one child is accepted before anything is counted, in [1e-6, 1 - 1e-6].
    double prior = 0.6;
    double common = 20;  ///< weight of the other requests' counts where a request begins, in nodes, >= 0
    /// Whether times are learnt from the calls of a loop that measures them (`learns_from_calls`): choices then follow
    /// a clock.
    bool learns_times = false;
    /// Where drafts have lost more than this part of the time of the last steps, some two hundred, against none,
    /// nothing is drafted until it is recovered; `credit` is an additional allowance, in steps. Both >= 0.
    double slack = 0.0125;
    double credit = 2;
    /// Of the rate that a request would have among as many without drafts, what it keeps at least, as far as can be
    /// foreseen, in [0, 1]; 0: whatever is best for all together. Rows make a step longer, also for a request whose own
    /// drafts do not pay.
    double least_rate = 0.9;

    static constexpr std::int32_t most_nodes = most_shared_nodes;  ///< the largest budget

    /// Throws `invalid_input` naming the field that is out of its range.
    void validate() const {
        if (nodes < 0 || nodes > most_nodes) refuse("nodes", nodes, "the budget is 0 to 2^16 nodes");
        if (depth < 0 || depth > 32) refuse("depth", depth, "trees have 0 to 32 levels");
        if (children < 1 || children > acceptance_history::most_children)
            refuse("children", children, "a node has 1 to 8 children");
        if (!(common >= 0)) refuse("common", common, "a number of nodes is not negative");
        if (!(slack >= 0)) refuse("slack", slack, "a part of the time is not negative");
        if (!(credit >= 0)) refuse("credit", credit, "a number of steps is not negative");
        acceptance_history::validate(memory, prior);
        if (!(least_rate >= 0 && least_rate <= 1)) refuse("least_rate", least_rate, "a part of a rate is in [0, 1]");
    }
};

/// Chooses at each step the trees of all requests in flight, which maximise the expected tokens per second of the step
/// (`share_budget`): one call of the target for all rows, one call of the draft for each level, or for all of them.
///
/// A request has rates of its own (`acceptance_history`). It begins with those of all requests so far, at the weight
/// `batch_controller_options::common`. Unless it learns times from the loop's calls, choices are a function of the
/// times given and the outcomes. They may depend on all earlier steps of all requests; the law of each text does not
/// change, whatever the verifier (not for noise that is fixed by the position in the text, as for `tree_controller`).
///
/// Without drafts nothing is learnt; the common counts then decay, so that drafting is tried again after some hundred
/// steps. What rates and times do not tell is bounded: the loss against drafting nothing, by what the steps took where
/// that is measured and was credible (`batch_controller_options::slack`).
class batch_controller {
public:
    /// `times` are those of a step's calls by the rows of all requests together, of a draft in one call by the requests
    /// that draft; the library's are those of one request, of the first verifier. Throws `invalid_input` for options
    /// out of their range and for times that `step_times::validate` refuses.
    explicit batch_controller(step_times times, batch_controller_options const& options = {})
        : times_(std::move(times)),
          options_(options),
          unknown_(options.memory, options.prior),
          common_(memory_of_all, options.prior) {
        options_.validate();
        times_.validate();
    }

    /// A new request. Returns its number; those of requests that have ended are given again.
    [[nodiscard]] std::int32_t start() {
        std::size_t free = 0;
        while (free < requests_.size() && requests_[free].active) ++free;
        if (free == requests_.size()) requests_.push_back({unknown_});
        member& one = requests_[free];
        one.history.begin_as(common_, options_.common);
        one.active = true;
        one.in_step = false;
        one.lost = 0;
        one.shape = topology();
        return static_cast<std::int32_t>(free);
    }

    /// The request has ended. Throws `invalid_input` for a number without a request.
    void end(std::int32_t request) { find(request).active = false; }

    /// That of the options.
    [[nodiscard]] std::int32_t depth() const noexcept { return options_.depth; }

    /// The shapes of the next step, one for each entry; the root alone drafts nothing. Valid until the next call. What
    /// the draft has not read, a prompt above all, it reads once for all later steps of the request, which share the
    /// expense: by the step alone the prompt of a new request would seldom pay.
    /// Requests that are not named have no part in the step. A depth below 0 counts as 0, one above that of the options
    /// as theirs. Throws `invalid_input` for no entry, a number without a request or named twice, unread tokens
    /// below 1.
    [[nodiscard]] std::span<topology const> choose(std::span<batch_situation const> step) {
        check(step);
        library_cost const& library = times_.library.front();
        double const each = library.step + (step.size() > 1 ? each_.seconds : 0);
        analysis::step_costs const costs{times_.target, times_.draft, each * static_cast<double>(step.size()), 0,
                                         library.inner};
        bool const searches =
            scratch_.is_due(step.size()) &&
            trees_may_gain(most_of_a_node(step), static_cast<std::int32_t>(step.size()), options_.nodes, costs);
        double const nothing = times_.target(static_cast<std::int32_t>(step.size())) + costs.rest;
        auto const took = balance_.end_step(options_.learns_times);
        for (member& one : requests_)
            if (one.in_step && one.tokens > 0)
                one.lost += options_.least_rate * took.seconds - one.tokens * took.nothing;
        if (searches) search(step, costs);
        if (!searches || chosen_.seconds - nothing > balance_.allowed(options_.slack, options_.credit, nothing))
            draft_nothing(step.size(), nothing);
        balance_.begin_step(step.size(), nothing, chosen_.seconds, library.step);
        bool drafts = false;
        for (member& one : requests_) one.in_step = false;
        for (std::size_t k = 0; k < step.size(); ++k) {
            member& one = find(step[k].request);
            one.in_step = true;
            one.tokens = 0;
            one.shape = chosen_.shapes[k];
            drafts = drafts || chosen_.shapes[k].size() > 1;
        }
        scratch_.count(step.size(), drafts);
        if (!drafts) common_.pass(1);
        return chosen_.shapes;
    }

    /// Counts the outcome of a request's tree of the last step, also of the root alone, so that old counts decay (the
    /// seconds are not read). Throws `invalid_input` for a number without a request, one that had no part in the last
    /// step, and an outcome whose path is none of its shape; a tree may be smaller, where the draft's support ended.
    void learn(std::int32_t request, step_outcome const& outcome) {
        auto& one = find(request);
        if (!one.in_step) refuse("request", request, "it had no part in the last step");
        one.history.learn(one.shape, outcome);
        balance_.count_tokens(outcome.path.size() + 1);
        one.tokens = static_cast<double>(outcome.path.size() + 1);
        if (one.shape.size() > 1) common_.learn(one.shape, outcome);
    }

    /// Moves the times of the target's calls towards those of a call of that many rows, if the options say so. What
    /// calls for several requests take beyond a call of as many rows is taken for what each request adds whatever its
    /// tree: the cache of each is read. No tree seems better or worse for it.
    void learn_target_call(std::int32_t rows, double seconds) {
        auto const requests = static_cast<std::int32_t>(chosen_.shapes.size());
        balance_.count_call(seconds, true);
        if (options_.learns_times && requests > 1 && rows > 0 && seconds >= 0) {
            double const by_rows = times_.target(rows);
            double const found = (seconds - by_rows) / requests - each_.seconds;
            double const credible = (most_of_call - 1) * by_rows / requests;
            ++each_.calls;
            each_.seconds += std::max(1 / (each_.calls + 1), weight_of_call) * std::clamp(found, -credible, credible);
            each_.seconds = std::clamp(each_.seconds, 0.0, most_beyond * times_.target(requests) / requests);
            seconds = std::max(0.0, seconds - each_.seconds * requests);
        }
        learn_call(times_.target, rows, seconds);
    }
    /// As `learn_target_call`, of the draft's calls; of one in one call by the requests that draft.
    void learn_draft_call(std::int32_t rows, double seconds) {
        balance_.count_call(seconds, false);
        learn_call(times_.draft, rows, seconds);
    }

    /// What was expected of the last choice: tokens and seconds.
    [[nodiscard]] shared_budget const& expected() const noexcept { return chosen_; }
    /// The times; an engine that measures its calls may move them (`analysis::call_cost::learn`).
    [[nodiscard]] step_times& times() noexcept { return times_; }
    /// The times, to read.
    [[nodiscard]] step_times const& times() const noexcept { return times_; }
    /// The rates of a request. Throws `invalid_input` for a number without a request.
    [[nodiscard]] acceptance_history const& rates(std::int32_t request) const {
        return requests_[index_of(request)].history;
    }

private:
    struct member {
        acceptance_history history;
        topology shape{};  ///< of the last step
        bool active = true;
        bool in_step = false;  ///< the last one
        double tokens = 0;     ///< of the last step
        double lost = 0;       ///< seconds, beyond what it may lose (`rate_floor`)
    };

    /// What a request adds to a call of the target, beyond its rows.
    struct own_seconds {
        double seconds = 0;
        double calls = 0;  ///< from which it was learnt
    };

    /// What drafts have gained of late, in seconds, against what their tokens would have taken without.
    class recent_balance {
    public:
        /// A step of so many requests, which without drafts takes `nothing`, and of whose `seconds` as expected each
        /// request has `library`, in no call.
        void begin_step(std::size_t requests, double nothing, double seconds, double library) noexcept {
            step_ = {static_cast<double>(requests), nothing, seconds, library * static_cast<double>(requests)};
        }
        void count_tokens(std::size_t tokens) noexcept { step_.tokens += static_cast<double>(tokens); }
        void count_call(double seconds, bool of_target) noexcept {
            step_.calls += seconds > 0 ? seconds : 0;
            step_.has_target = step_.has_target || of_target;
        }
        /// What a step took.
        struct seconds_of_step {
            double seconds = 0;
            double nothing = 0;  ///< without drafts
        };
        /// Counts the step: by its calls, or as it was expected. One with drafts whose calls are unknown says nothing.
        /// Returns what it took; 0 where there was none.
        seconds_of_step end_step(bool by_clock) noexcept {
            if (step_.tokens == 0) return {};
            bool const drafted = step_.expected > step_.nothing;
            double seconds = step_.expected;
            // One of more than twice the time expected was probably disturbed.
            if (by_clock) seconds = std::clamp(step_.calls + step_.rest, seconds / 2, 2 * seconds);
            spent_ = kept * spent_ + step_.nothing;
            gained_ *= kept;
            if (drafted && (!by_clock || step_.has_target))
                gained_ += step_.tokens / step_.requests * step_.nothing - seconds;
            seconds_of_step const took{seconds, step_.nothing};
            step_ = {};
            return took;
        }
        /// The seconds that the next step may lose. What was gained earlier is no allowance.
        [[nodiscard]] double allowed(double slack, double credit, double nothing) const noexcept {
            return std::min(gained_, 0.0) + slack * spent_ + credit * nothing;
        }

    private:
        static constexpr double kept = 1 - 1.0 / 200;  ///< from step to step
        struct one_step {
            double requests = 1, nothing = 0, expected = 0, rest = 0, calls = 0, tokens = 0;
            bool has_target = false;
        };
        one_step step_;
        double gained_ = 0;
        double spent_ = 0;
    };
    /// The arrays of a choice, and when trees were last looked for.
    struct choice_memory {
        std::vector<analysis::child_rates> rates;
        std::vector<std::int32_t> unread;
        std::vector<double> lost;
        std::vector<char> named;
        std::size_t idle = 0;      ///< steps since the last one with drafts
        std::size_t requests = 0;  ///< of the last step

        /// While nothing is drafted the search of many requests, which takes longer, is made less often: a step of
        /// small models is no longer than it. Where there are fewer requests than before it is made at once.
        [[nodiscard]] bool is_due(std::size_t now) const noexcept {
            constexpr std::size_t most = 8;
            return now < requests || idle % std::clamp<std::size_t>(now, 1, most) == 0;
        }
        void count(std::size_t now, bool drafts) noexcept {
            idle = drafts ? 0 : idle + 1;
            requests = now;
        }
    };

    static constexpr double memory_of_all = 1000;  ///< in steps of single requests
    static constexpr double weight_of_call = 0.05;
    static constexpr double most_of_call = 1.25;  ///< that a call counts for, times what it was expected to take
    static constexpr double most_beyond = 0.75;   ///< that requests add to a call of their roots, of its time

    /// The tokens that this step pays for, of those that the draft lacks: the root, and of the others its share of the
    /// steps that the request has left, as far as can be foreseen. A step emits some two tokens.
    [[nodiscard]] static std::int32_t share_of_reading(batch_situation const& one) {
        if (one.unread <= 2) return one.unread;
        constexpr std::int32_t foreseen = 32;
        std::int32_t const steps = std::clamp(one.depth / 2 + 1, 1, foreseen);
        return 1 + (one.unread - 1 + steps - 1) / steps;
    }

    /// Refuses what `choose` says.
    void check(std::span<batch_situation const> step) {
        if (step.empty()) refuse("step.size", 0, "a step has one request or more");
        scratch_.named.assign(requests_.size(), 0);
        for (std::size_t k = 0; k < step.size(); ++k) {
            auto const at = [k] { return "step[" + std::to_string(k) + "]"; };
            if (!is_active(step[k].request))
                refuse(at() + ".request", step[k].request, "no request in flight has this number");
            if (step[k].unread < 1) refuse(at() + ".unread", step[k].unread, "the draft reads the root at least");
            char& named = scratch_.named[static_cast<std::size_t>(step[k].request)];
            if (named != 0) refuse(at() + ".request", step[k].request, "a request has one part in a step");
            named = 1;
        }
    }

    /// Chooses by the rates of the requests.
    void search(std::span<batch_situation const> step, analysis::step_costs const& costs) {
        scratch_.rates.clear();
        scratch_.unread.clear();
        scratch_.lost.clear();
        for (batch_situation const& one : step) {
            scratch_.rates.push_back(find(one.request).history.child_rates(depth_of(one), options_.children));
            scratch_.unread.push_back(share_of_reading(one));
            scratch_.lost.push_back(find(one.request).lost);
        }
        chosen_ = share_budget(scratch_.rates, options_.nodes, costs, scratch_.unread, times_.draft_in_one_call,
                               {options_.least_rate, scratch_.lost});
    }

    /// Chooses the roots alone, which take that long.
    void draft_nothing(std::size_t requests, double seconds) {
        chosen_.shapes.resize(requests);
        for (topology& shape : chosen_.shapes)
            if (shape.size() > 1) shape = topology();
        chosen_.tokens = static_cast<double>(requests);
        chosen_.seconds = seconds;
    }

    [[nodiscard]] std::int32_t depth_of(batch_situation const& one) const {
        return std::clamp(one.depth, 0, options_.depth);
    }

    /// The most that the nodes of a tree are accepted on average: the rate of n children divided by n.
    [[nodiscard]] double most_of_a_node(std::span<batch_situation const> step) {
        double most = 0;
        for (batch_situation const& one : step) {
            acceptance_history const& history = find(one.request).history;
            for (std::int32_t level = 0; level < depth_of(one); ++level)
                for (std::int32_t n = 1; n <= options_.children; ++n) most = std::max(most, history.rate(level, n) / n);
        }
        return most;
    }

    /// Moves all times a little, and those of about as many rows a little more. If a call moved only the latter, one
    /// that was disturbed would make other numbers of rows seem better, until calls of these are disturbed, too.
    void learn_call(analysis::call_cost& cost, std::int32_t rows, double seconds) const {
        if (!options_.learns_times || rows < 1 || !(seconds >= 0)) return;
        double const before = cost(rows);
        if (!(before > 0)) return cost.learn(rows, seconds, weight_of_call);
        double const ratio = std::clamp(seconds / before, 1 / most_of_call, most_of_call);
        cost.scale(1 + weight_of_call * (ratio - 1));
        cost.learn(rows, ratio * before, weight_of_call);
    }

    [[nodiscard]] bool is_active(std::int32_t number) const noexcept {
        auto const k = static_cast<std::size_t>(number);
        return number >= 0 && k < requests_.size() && requests_[k].active;
    }
    [[nodiscard]] std::size_t index_of(std::int32_t number) const {
        if (!is_active(number)) refuse("request", number, "no request in flight has this number");
        return static_cast<std::size_t>(number);
    }
    [[nodiscard]] member& find(std::int32_t number) { return requests_[index_of(number)]; }

    step_times times_;
    batch_controller_options options_;
    acceptance_history unknown_;  ///< of a request of which nothing is known
    acceptance_history common_;   ///< of all requests
    own_seconds each_;
    std::vector<member> requests_;
    recent_balance balance_;
    choice_memory scratch_;
    shared_budget chosen_;
};

static_assert(shape_chooser<batch_controller> && learns_from_calls<batch_controller>);

}  // namespace MULTIDRAFT_NAMESPACE
