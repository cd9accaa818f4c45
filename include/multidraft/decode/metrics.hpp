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

/// Counts and times of one generation; sums of several by `+=`.
struct generation_metrics {
    std::int64_t tokens = 0;        ///< emitted
    std::int64_t target_calls = 0;  ///< forward calls that led to an emitted token; the prompt's is not counted
    std::int64_t draft_calls = 0;   ///< forward calls of the draft model after the prompt
    std::int64_t drafted = 0;       ///< nodes drafted, the roots not counted
    std::int64_t accepted = 0;      ///< nodes accepted
    /// By depth d = 0, 1, ..: how often a node at depth d with children was on the accepted path, and how often one of
    /// its children was accepted.
    std::vector<std::int64_t> tried_at_depth;
    std::vector<std::int64_t> accepted_at_depth;
    /// By rank k = 0, 1, .. among siblings: how often a node of the accepted path had a child of that rank, and how
    /// often that child was the accepted one. The input of `analysis::optimal_tree`.
    std::vector<std::int64_t> tried_at_rank;
    std::vector<std::int64_t> accepted_at_rank;
    /// For target-initialised trees, by start in the order drawn: how often its path won, and how many nodes below the
    /// start were accepted on it, whether it won or not ([ImprovingMCSD] figure 3).
    std::vector<std::int64_t> won_by_start;
    std::vector<std::int64_t> accepted_by_start;

    // Seconds.
    double prompt_seconds = 0;  ///< both models reading the prompt
    double target_seconds = 0;  ///< target forward calls
    double draft_seconds = 0;   ///< draft forward calls
    double sample_seconds = 0;  ///< drawing the candidates
    double mask_seconds = 0;    ///< trees, masks and positions
    double verify_seconds = 0;  ///< verification, or drawing the token in the autoregressive loop
    double cache_seconds = 0;   ///< keeping the accepted entries
    double seconds = 0;         ///< the whole generation, the prompt and the callback included

    /// Tokens emitted per target call ([MCSD] 5, [RSD] 5: block efficiency); 1 for the autoregressive loop.
    [[nodiscard]] double block_efficiency() const {
        return ratio(static_cast<double>(tokens), static_cast<double>(target_calls));
    }
    /// How often a node with children had one accepted: the mean over all depths.
    [[nodiscard]] double acceptance_rate() const {
        double tried = 0;
        for (auto const t : tried_at_depth) tried += static_cast<double>(t);
        return ratio(static_cast<double>(accepted), tried);
    }
    /// The same at one depth.
    [[nodiscard]] double acceptance_rate(std::size_t depth) const {
        if (depth >= tried_at_depth.size()) return 0;
        return ratio(static_cast<double>(accepted_at_depth[depth]), static_cast<double>(tried_at_depth[depth]));
    }
    /// How often the child of that rank was accepted, of the nodes of the path that had one.
    [[nodiscard]] double acceptance_rate_of_rank(std::size_t rank) const {
        if (rank >= tried_at_rank.size()) return 0;
        return ratio(static_cast<double>(accepted_at_rank[rank]), static_cast<double>(tried_at_rank[rank]));
    }
    /// Accepted nodes divided by the largest possible number, the "alpha" of [ImprovingMCSD], for trees `depth` levels
    /// deep.
    [[nodiscard]] double accepted_fraction(std::int32_t depth) const {
        return ratio(static_cast<double>(accepted), static_cast<double>(target_calls) * depth);
    }
    /// Tokens per second, without the prompt's time.
    [[nodiscard]] double tokens_per_second() const {
        return ratio(static_cast<double>(tokens), seconds - prompt_seconds);
    }

    /// Counts one node of the accepted path at `depth` that had children.
    void tried(std::size_t depth, bool was_accepted) {
        if (depth >= tried_at_depth.size()) {
            tried_at_depth.resize(depth + 1, 0);
            accepted_at_depth.resize(depth + 1, 0);
        }
        ++tried_at_depth[depth];
        if (was_accepted) ++accepted_at_depth[depth];
    }

    /// Counts the children of such a node, and which of them was accepted: its rank, or none of them for -1.
    void tried_ranks(std::int32_t children, std::int32_t rank) {
        auto const count = static_cast<std::size_t>(children);
        if (count > tried_at_rank.size()) {
            tried_at_rank.resize(count, 0);
            accepted_at_rank.resize(count, 0);
        }
        for (std::size_t k = 0; k < count; ++k) ++tried_at_rank[k];
        if (rank >= 0) ++accepted_at_rank[static_cast<std::size_t>(rank)];
    }

    /// Adds counts and seconds, for the sum over several texts.
    generation_metrics& operator+=(generation_metrics const& other) {
        tokens += other.tokens;
        target_calls += other.target_calls;
        draft_calls += other.draft_calls;
        drafted += other.drafted;
        accepted += other.accepted;
        if (tried_at_depth.size() < other.tried_at_depth.size()) {
            tried_at_depth.resize(other.tried_at_depth.size(), 0);
            accepted_at_depth.resize(other.tried_at_depth.size(), 0);
        }
        for (std::size_t d = 0; d < other.tried_at_depth.size(); ++d) {
            tried_at_depth[d] += other.tried_at_depth[d];
            accepted_at_depth[d] += other.accepted_at_depth[d];
        }
        auto const ranks = std::max(tried_at_rank.size(), other.tried_at_rank.size());
        tried_at_rank.resize(ranks, 0);
        accepted_at_rank.resize(ranks, 0);
        for (std::size_t k = 0; k < other.tried_at_rank.size(); ++k) {
            tried_at_rank[k] += other.tried_at_rank[k];
            accepted_at_rank[k] += other.accepted_at_rank[k];
        }
        add(won_by_start, other.won_by_start);
        add(accepted_by_start, other.accepted_by_start);
        prompt_seconds += other.prompt_seconds;
        target_seconds += other.target_seconds;
        draft_seconds += other.draft_seconds;
        sample_seconds += other.sample_seconds;
        mask_seconds += other.mask_seconds;
        verify_seconds += other.verify_seconds;
        cache_seconds += other.cache_seconds;
        seconds += other.seconds;
        return *this;
    }

    /// Counts the path of one start of a target-initialised tree: the nodes accepted below it.
    void start_accepted(std::size_t start, std::int64_t count) {
        if (start >= accepted_by_start.size()) {
            accepted_by_start.resize(start + 1, 0);
            won_by_start.resize(start + 1, 0);
        }
        accepted_by_start[start] += count;
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
