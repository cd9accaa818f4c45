// The bounds of MTAD on perplexity and accepted length under acceptance by joint likelihood.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "multidraft/analysis/input.hpp"
#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"

namespace MULTIDRAFT_NAMESPACE::research {

// The terms of [MTAD] 3.2 and its appendix A, for `lossy::joint_likelihood`:
//
// - tau, in (0, 1): the threshold. A prefix passes when p(prefix) / q(prefix) > tau.
// - mean_step: the mean number of tokens a step emits, the accepted ones and the one drawn from p (gamma-bar).
// - difference: U, at least |log p(x) - log q(x)| of every token after every text (`largest_log_difference`).
// - epsilon <= 0: the draft's beams find (1 - epsilon) times the largest mean log q; 0 where they find the largest.
// - entropy, cross_entropy: means of -sum p log p and -sum p log q of one token, in nats.
//
// All functions throw `invalid_input`, naming the argument, for numbers outside these ranges.

namespace detail {

inline void check_threshold(double tau) {
    if (!(tau > 0 && tau < 1)) refuse("tau", tau, "the threshold of these bounds lies in (0, 1)");
}
inline void check_mean_step(double mean_step) {
    if (!(mean_step >= 1) || !std::isfinite(mean_step))
        refuse("mean_step", mean_step, "a step emits one token or more");
}
inline void check_epsilon(double epsilon) {
    if (!(epsilon <= 0) || !std::isfinite(epsilon))
        refuse("epsilon", epsilon, "the error of beams is finite and not positive");
}
inline void check_nats(double value, char const* argument) {
    if (!(value >= 0) || !std::isfinite(value)) refuse(argument, value, "it is finite and not negative");
}

}  // namespace detail

/// U of a pair of rows: the largest |log p(x) - log q(x)|; infinity where one of them is 0 and the other is not. O(V).
///
/// Throws `invalid_input` for rows that are not distributions over one vocabulary.
[[nodiscard]] inline double largest_log_difference(std::span<double const> p, std::span<double const> q) {
    auto const rows = analysis::detail::checked(p, q);
    double largest = 0;
    for (std::size_t i = 0; i < rows.p.size(); ++i) {
        if (rows.p[i] == rows.q[i]) continue;  // both may be 0
        if (!(rows.p[i] > 0 && rows.q[i] > 0)) return std::numeric_limits<double>::infinity();
        largest = std::max(largest, std::abs(std::log(rows.p[i] / rows.q[i])));
    }
    return largest;
}

/// A lower bound of the tokens that a step emits: min(depth + 1, |log tau| / U), as every prefix of fewer than |log
/// tau| / U tokens passes ([MTAD] Theorem 3.6, which omits that only `depth` tokens are drafted). Holds for every step,
/// so for the mean. depth + 1 where the difference is 0.
[[nodiscard]] inline double least_mean_step(double tau, double difference, index_t depth) {
    detail::check_threshold(tau);
    detail::check_nats(difference, "difference");
    if (depth < 0) refuse("depth", depth, "a draft is 0 tokens deep or more");
    double const whole = depth + 1.0;
    return difference > 0 ? std::max(1.0, std::min(whole, -std::log(tau) / difference)) : whole;
}

/// An upper bound of the ratio of the text's perplexity under p to that under q: tau^(-1 / mean_step), in the limit of
/// long texts ([MTAD] Lemma A.1).
[[nodiscard]] inline double perplexity_ratio_bound(double tau, double mean_step) {
    detail::check_threshold(tau);
    detail::check_mean_step(mean_step);
    return std::pow(tau, -1 / mean_step);
}

/// An upper bound of the text's perplexity under q: exp((cross_entropy - (1 - epsilon) best_log_q) / mean_step) ([MTAD]
/// Lemma 3.4). `best_log_q` <= 0 is the mean, over steps, of the largest log q of as many tokens as were accepted.
[[nodiscard]] inline double draft_perplexity_bound(double best_log_q, double cross_entropy, double epsilon,
                                                   double mean_step) {
    if (!(best_log_q <= 0) || !std::isfinite(best_log_q))
        refuse("best_log_q", best_log_q, "the logarithm of a probability is finite and not positive");
    detail::check_nats(cross_entropy, "cross_entropy");
    detail::check_epsilon(epsilon);
    detail::check_mean_step(mean_step);
    return std::exp((cross_entropy - (1 - epsilon) * best_log_q) / mean_step);
}

/// An upper bound of the ratio of the perplexity under p of MTAD's text to that of exact, deterministic joint decoding:
/// tau^(-1/m) exp(((1 - epsilon m) entropy + (1 + (1 - epsilon) m) difference) / m), m = mean_step ([MTAD] Theorem
/// 3.5).
///
/// The paper prints (1 - epsilon + m) before the difference. Its proof gives 1 + (1 - epsilon) m: (28) is multiplied by
/// (1 - epsilon) / m. The two agree for epsilon = 0 and for m = 1; elsewhere the printed one is smaller.
[[nodiscard]] inline double joint_perplexity_ratio_bound(double tau, double mean_step, double entropy,
                                                         double difference, double epsilon) {
    detail::check_threshold(tau);
    detail::check_mean_step(mean_step);
    detail::check_nats(entropy, "entropy");
    detail::check_nats(difference, "difference");
    detail::check_epsilon(epsilon);
    double const m = mean_step;
    return std::exp((-std::log(tau) + (1 - epsilon * m) * entropy + (1 + (1 - epsilon) * m) * difference) / m);
}

}  // namespace MULTIDRAFT_NAMESPACE::research
