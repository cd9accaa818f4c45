// The acceptance rate of any verifier, and that of each rank, from trials: for verifiers without a formula.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"

namespace MULTIDRAFT_NAMESPACE::analysis {

/// Draws the children of one node and verifies them: `trial(k)` is the rank of the child that was accepted in trial k,
/// 0 for the first one drawn, or `none`. Trials with different k are independent. `trial.children()` is the number
/// drawn.
template <class T>
concept acceptance_trial = requires(T& trial, std::int64_t k) {
    { trial(k) } -> std::convertible_to<index_t>;
    { trial.children() } -> std::convertible_to<index_t>;
};

/// The result of trials.
struct acceptance_estimate {
    double rate = 0;  ///< the fraction of trials that accepted a child
    /// Of the rate: sqrt(rate (1 - rate) / (trials - 1)). 0 if all trials agree.
    double standard_error = 0;
    std::vector<double> by_rank;  ///< the fraction that accepted the child of rank 0, 1, ..; their sum is the rate
    std::int64_t trials = 0;
};

/// The acceptance rate of a verifier at one node, estimated from trials, whether or not the verifier is lossless.
///
///     testing::node_trial trial(draft::iid{}, my_verifier{}, p, q, 3);
///     auto const found = analysis::estimate_acceptance(trial, 10000);
///
/// `testing::node_trial` makes a trial from a sampler, a verifier and two rows. For the mean over many rows see
/// `bootstrap_mean`, for rows of few texts `bootstrap_clustered_mean`. Throws `invalid_input` for fewer than two trials
/// and for an impossible rank.
template <acceptance_trial Trial>
[[nodiscard]] acceptance_estimate estimate_acceptance(Trial&& trial, std::int64_t trials = 4096) {
    if (trials < 2) refuse("trials", trials, "there are two trials or more");
    auto const children = static_cast<index_t>(trial.children());
    std::vector<std::int64_t> accepted(static_cast<std::size_t>(children), 0);
    for (std::int64_t k = 0; k < trials; ++k) {
        index_t const rank = trial(k);
        if (rank == none) continue;
        if (rank < 0 || rank >= children)
            refuse("rank", rank, "a trial accepts one of " + std::to_string(children) + " children, or none");
        ++accepted[static_cast<std::size_t>(rank)];
    }
    acceptance_estimate result;
    result.trials = trials;
    auto const count = static_cast<double>(trials);
    std::int64_t all = 0;
    for (std::int64_t const of_rank : accepted) {
        result.by_rank.push_back(static_cast<double>(of_rank) / count);
        all += of_rank;
    }
    result.rate = static_cast<double>(all) / count;
    result.standard_error = std::sqrt(result.rate * (1 - result.rate) / (count - 1));
    return result;
}

}  // namespace MULTIDRAFT_NAMESPACE::analysis
