// Block efficiency and speed-up from acceptance rates.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"

namespace MULTIDRAFT_NAMESPACE::analysis {

namespace detail {

inline void check_rate(double rate, char const* argument, std::int64_t index) {
    if (!(rate >= 0 && rate <= 1)) refuse(argument, index, rate, "an acceptance rate lies in [0, 1]");
}

inline void check_depth(index_t depth) {
    if (depth < 0) refuse("depth", depth, "a draft is 0 tokens deep or more");
}

inline void check_cost(double cost, char const* argument) {
    if (!(cost >= 0) || !std::isfinite(cost)) refuse(argument, cost, "a ratio of costs is finite and not negative");
}

}  // namespace detail

/// Block efficiency: tokens emitted per call of the target, from the acceptance rate at every depth, each given that
/// the levels above were accepted: 1 + a_1 + a_1 a_2 + .. . At least 1, at most depth + 1.
///
/// Throws `invalid_input` for a rate outside [0, 1].
[[nodiscard]] inline double block_efficiency(std::span<double const> rates) {
    double reached = 1;
    double result = 1;
    for (std::size_t k = 0; k < rates.size(); ++k) {
        detail::check_rate(rates[k], "rates", static_cast<std::int64_t>(k));
        reached *= rates[k];
        result += reached;
    }
    return result;
}

/// The same when the rate is alpha at every one of `depth` levels: (1 - alpha^(depth+1)) / (1 - alpha)
/// ([Leviathan23], (1)).
[[nodiscard]] inline double block_efficiency(double alpha, index_t depth) {
    detail::check_rate(alpha, "alpha", -1);
    detail::check_depth(depth);
    // The quotient loses digits where alpha is close to 1; the sum does not.
    double reached = 1;
    double result = 1;
    for (index_t k = 0; k < depth && reached > 0; ++k) {
        reached *= alpha;
        result += reached;
    }
    return result;
}

/// Improvement factor of the wall time: (1 - alpha^(depth+1)) / ((1 - alpha) (cost depth + 1)), with cost = time of a
/// draft call / time of a target call ([Leviathan23], Theorem 3.8). At alpha = 1 its limit.
///
/// Throws `invalid_input` for a rate outside [0, 1], a negative depth, a cost that is negative or not finite.
[[nodiscard]] inline double improvement_factor(double alpha, index_t depth, double cost) {
    detail::check_cost(cost, "cost");
    return block_efficiency(alpha, depth) / (cost * depth + 1);
}

/// The depth with the largest improvement factor, 0 where drafting gains nothing; ties to the smaller depth. O(depth).
///
/// Throws `invalid_input` as `improvement_factor`, for alpha = 1 with a cost below 1 and for a cost of 0 with alpha >
/// 0, where no depth is the best, and where it is more than 2^24.
[[nodiscard]] inline index_t best_depth(double alpha, double cost) {
    detail::check_rate(alpha, "alpha", -1);
    detail::check_cost(cost, "cost");
    if (alpha == 1 && cost < 1) refuse("alpha", alpha, "where all is accepted, no depth is the best");
    if (cost == 0 && alpha > 0) refuse("cost", cost, "where a draft costs nothing, no depth is the best");
    // The factor has a single maximum, since the gain of a further level decreases with depth and its cost does not.
    index_t depth = 0;
    double reached = 1;
    double efficiency = 1;
    for (;;) {
        reached *= alpha;
        if (!((efficiency + reached) * (cost * depth + 1) > efficiency * (cost * (depth + 1) + 1))) return depth;
        if (depth == 1 << 24) refuse("cost", cost, "the best depth is more than 2^24 for this rate");
        efficiency += reached;
        ++depth;
    }
}

/// The improvement factor of an oracle that drafts in each step exactly the tokens that will be accepted
/// ([ImprovingMCSD] 2, after [Leviathan23] 3.5). It is 1 / (1 - alpha + cost alpha), as on average the oracle emits 1 /
/// (1 - alpha) tokens and drafts alpha / (1 - alpha) of them.
///
/// Up to 58 % above the factor of the best fixed depth. Errors as `improvement_factor`, and for alpha = 1 and a cost of
/// 0.
[[nodiscard]] inline double improvement_factor_of_oracle(double alpha, double cost) {
    detail::check_rate(alpha, "alpha", -1);
    detail::check_cost(cost, "cost");
    double const share = 1 - alpha + cost * alpha;
    if (!(share > 0)) refuse("cost", cost, "where all is accepted and a draft costs nothing, there is no end");
    return 1 / share;
}

/// MBSU, the memory-bound speed-up: efficiency / (depth size_ratio + 1), with size_ratio = size of the draft model /
/// size of the target model ([RSD] C.2, after [DistillSpec]; RSD prints the inverse ratio).
///
/// Throws `invalid_input` for an efficiency outside [0, depth + 1], a negative depth, a ratio that is negative or not
/// finite.
[[nodiscard]] inline double memory_bound_speed_up(double efficiency, index_t depth, double size_ratio) {
    detail::check_depth(depth);
    detail::check_cost(size_ratio, "size_ratio");
    if (!(efficiency >= 0 && efficiency <= depth + 1.0))
        refuse("efficiency", efficiency, "a call of the target emits at most depth + 1 tokens");
    return efficiency / (depth * size_ratio + 1);
}

/// Accepted length / maximum length, the "alpha" of [ImprovingMCSD]: not an acceptance rate.
///
/// Throws `invalid_input` for a depth below 1, a length outside [0, depth].
[[nodiscard]] inline double accepted_fraction(double accepted, index_t depth) {
    if (depth < 1) refuse("depth", depth, "a draft is 1 token deep or more");
    if (!(accepted >= 0 && accepted <= depth)) refuse("accepted", accepted, "at most depth tokens are accepted");
    return accepted / depth;
}

}  // namespace MULTIDRAFT_NAMESPACE::analysis
