// Counts and times of a generation.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "multidraft/base/config.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// How often something was tried and accepted, by a number from 0 on.
struct trial_counts {
    std::vector<std::int64_t> tried;
    std::vector<std::int64_t> accepted;

    /// Counts a trial.
    void add(std::size_t at, bool was_accepted) {
        make_room(at + 1);
        ++tried[at];
        if (was_accepted) ++accepted[at];
    }
    /// The fraction accepted; 0 where nothing was tried.
    [[nodiscard]] double rate(std::size_t at) const {
        return at < tried.size() && tried[at] > 0 ? static_cast<double>(accepted[at]) / static_cast<double>(tried[at])
                                                  : 0;
    }
    /// Adds other counts.
    trial_counts& operator+=(trial_counts const& other) {
        make_room(other.tried.size());
        for (std::size_t k = 0; k < other.tried.size(); ++k) {
            tried[k] += other.tried[k];
            accepted[k] += other.accepted[k];
        }
        return *this;
    }
    /// Makes room for that many numbers.
    void make_room(std::size_t numbers) {
        if (numbers <= tried.size()) return;
        tried.resize(numbers, 0);
        accepted.resize(numbers, 0);
    }
};

/// For target-initialised trees, by start in the order drawn: how often its path won, and how many nodes below the
/// start were accepted on it, whether it won or not ([ImprovingMCSD] figure 3).
struct start_counts {
    std::vector<std::int64_t> won;
    std::vector<std::int64_t> accepted;
};

/// Seconds of a loop, by activity.
struct loop_seconds {
    double prompt = 0;  ///< both models reading the prompt
    double target = 0;  ///< target forward calls
    double draft = 0;   ///< draft forward calls
    double sample = 0;  ///< drawing the candidates
    double mask = 0;    ///< trees, masks and positions
    double verify = 0;  ///< verification, or drawing the token in the autoregressive loop
    double cache = 0;   ///< keeping the accepted entries

    /// Adds those of another loop.
    loop_seconds& operator+=(loop_seconds const& other) {
        prompt += other.prompt;
        target += other.target;
        draft += other.draft;
        sample += other.sample;
        mask += other.mask;
        verify += other.verify;
        cache += other.cache;
        return *this;
    }
};

/// What some steps counted.
struct step_counts {
    std::int64_t tokens = 0;        ///< emitted; of whole steps decided: the accepted nodes, and one more
    std::int64_t target_calls = 0;  ///< forward calls that led to an emitted token; the prompt's is not counted
    std::int64_t draft_calls = 0;   ///< forward calls of the draft model after the prompt
    std::int64_t drafted = 0;       ///< nodes drafted, the roots not counted
    std::int64_t accepted = 0;      ///< nodes accepted

    /// Adds those of other steps.
    step_counts& operator+=(step_counts const& other) {
        tokens += other.tokens;
        target_calls += other.target_calls;
        draft_calls += other.draft_calls;
        drafted += other.drafted;
        accepted += other.accepted;
        return *this;
    }
};

/// Counts and times of one generation; sums of several by `+=`.
///
/// Rates per step are those of *whole* steps, whose tree was as deep as the drafter makes them. The last steps before
/// the limit of tokens or the end of the context draft less, and would make the rates of short texts too low: by 1.5 to
/// 5 % at 48 tokens, more for methods that accept more. A whole step counts with all that it accepted, also where a
/// stop token or the caller ends the text within it. Whether a step is whole is known before it is drawn, so the
/// expected tokens of whole steps are their expected number times the mean of one, and the rates have no bias from the
/// text's end. (Leaving out the steps that were *found* to be cut would have one: long steps are cut more often.)
struct generation_metrics : step_counts {
    /// The counts of whole steps alone; tokens that the text's end cut off are counted.
    step_counts whole_steps;
    /// By depth d = 0, 1, ..: how often a node at depth d with children was on the accepted path of a whole step, and
    /// how often one of its children was accepted.
    trial_counts by_depth;
    /// By rank k = 0, 1, .. among siblings: how often a node of the accepted path of a whole step had a child of that
    /// rank, and how often that child was the accepted one. The input of `analysis::optimal_tree`.
    trial_counts by_rank;
    start_counts by_start;  ///< of target-initialised trees, of whole steps
    loop_seconds time;
    double seconds = 0;  ///< the whole generation, the prompt and the callback included

    /// Tokens per target call of whole steps ([MCSD] 5, [RSD] 5: block efficiency); 1 for the autoregressive loop, 0
    /// where the text has no whole step.
    [[nodiscard]] double block_efficiency() const {
        return ratio(static_cast<double>(whole_steps.tokens), static_cast<double>(whole_steps.target_calls));
    }
    /// How often a node with children had one accepted: the mean over all depths of whole steps.
    [[nodiscard]] double acceptance_rate() const {
        double tried = 0;
        double found = 0;
        for (auto const t : by_depth.tried) tried += static_cast<double>(t);
        for (auto const a : by_depth.accepted) found += static_cast<double>(a);
        return ratio(found, tried);
    }
    /// The same at one depth.
    [[nodiscard]] double acceptance_rate(std::size_t depth) const { return by_depth.rate(depth); }
    /// How often the child of that rank was accepted, of the nodes of the path that had one.
    [[nodiscard]] double acceptance_rate_of_rank(std::size_t rank) const { return by_rank.rate(rank); }
    /// Accepted nodes of whole steps divided by the largest possible number, the "alpha" of [ImprovingMCSD], for trees
    /// `depth` levels deep.
    [[nodiscard]] double accepted_fraction(std::int32_t depth) const {
        return ratio(static_cast<double>(whole_steps.accepted), static_cast<double>(whole_steps.target_calls) * depth);
    }
    /// Tokens per second, without the prompt's time.
    [[nodiscard]] double tokens_per_second() const { return ratio(static_cast<double>(tokens), seconds - time.prompt); }

    /// The counts of all steps so far. Loops count tokens at the end of a text.
    [[nodiscard]] step_counts totals() const noexcept { return *this; }

    /// Counts a whole step that decided `step_tokens` tokens, and all else that has been counted since `before`, the
    /// totals when it began.
    void add_whole_step(step_counts const& before, std::int64_t step_tokens) {
        whole_steps += {step_tokens, target_calls - before.target_calls, draft_calls - before.draft_calls,
                        drafted - before.drafted, accepted - before.accepted};
    }

    /// Counts one node of the accepted path at `depth` that had children.
    void tried(std::size_t depth, bool was_accepted) { by_depth.add(depth, was_accepted); }

    /// Counts the children of such a node, and which of them was accepted: its rank, or none of them for -1.
    void tried_ranks(std::int32_t children, std::int32_t rank) {
        for (std::int32_t k = 0; k < children; ++k) by_rank.add(static_cast<std::size_t>(k), k == rank);
    }

    /// Adds counts and seconds, for the sum over several texts.
    generation_metrics& operator+=(generation_metrics const& other) {
        step_counts::operator+=(other);
        whole_steps += other.whole_steps;
        by_depth += other.by_depth;
        by_rank += other.by_rank;
        add(by_start.won, other.by_start.won);
        add(by_start.accepted, other.by_start.accepted);
        time += other.time;
        seconds += other.seconds;
        return *this;
    }

    /// Counts the path of one start of a target-initialised tree: the nodes accepted below it.
    void start_accepted(std::size_t start, std::int64_t count) {
        if (start >= by_start.accepted.size()) {
            by_start.accepted.resize(start + 1, 0);
            by_start.won.resize(start + 1, 0);
        }
        by_start.accepted[start] += count;
    }

private:
    static void add(std::vector<std::int64_t>& sum, std::vector<std::int64_t> const& more) {
        sum.resize(std::max(sum.size(), more.size()), 0);
        for (std::size_t i = 0; i < more.size(); ++i) sum[i] += more[i];
    }
    static double ratio(double a, double b) { return b > 0 ? a / b : 0; }
};

namespace detail {

/// Adds its lifetime to a number of seconds.
class stopwatch {
public:
    /// Adds the seconds from now until its destruction to `seconds`.
    explicit stopwatch(double& seconds) : seconds_(seconds), begin_(std::chrono::steady_clock::now()) {}
    stopwatch(stopwatch const&) = delete;
    stopwatch& operator=(stopwatch const&) = delete;
    ~stopwatch() { seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count(); }

private:
    double& seconds_;
    std::chrono::steady_clock::time_point begin_;
};

}  // namespace detail

}  // namespace MULTIDRAFT_NAMESPACE
