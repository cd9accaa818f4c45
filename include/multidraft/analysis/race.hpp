// Sampling without replacement as a race of exponentials: the probabilities of the `sequential` law as one integral.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "multidraft/analysis/input.hpp"
#include "multidraft/core/config.hpp"

namespace multidraft::analysis {

namespace detail {

// Token i arrives at time E_i / q_i with E_i exponential; the order of arrival is the order in which draws without
// replacement come. Given the time t, arrivals are independent, so probabilities are integrals over t of products. With
// t = exp(s) the trapezoid rule converges exponentially: at this step the error is below rounding.
inline constexpr double race_step = 0.1;
inline constexpr double race_begin = -45;  // exp(-45): below it lies less than 1e-19 of any arrival

/// The probability that at most `counts.size() - 1` tokens have arrived is the sum of `counts`; one more token takes
/// part, which has arrived with probability `arrived`.
inline void add_racer(std::span<double> counts, double arrived) {
    for (std::size_t c = counts.size() - 1; c > 0; --c) counts[c] = counts[c] * (1 - arrived) + counts[c - 1] * arrived;
    counts[0] *= 1 - arrived;
}

}  // namespace detail

/// The probability, for every token, that it is among n tokens drawn from q without replacement.
///
/// Sums to min(n, support of q). Exact to rounding; O(V n) time at each of about a thousand points, O(V n) memory.
/// Throws `invalid_input` for a row that is no distribution and for n < 1.
[[nodiscard]] inline std::vector<double> sequential_inclusion(std::span<double const> q, index_t n) {
    detail::check_count(n);
    auto const row = detail::checked(q, "q");
    std::vector<std::size_t> support;
    for (std::size_t i = 0; i < row.size(); ++i)
        if (row[i] > 0) support.push_back(i);
    std::vector<double> result(row.size(), 0.0);
    auto const width = static_cast<std::size_t>(n);
    if (support.size() <= width) {
        for (std::size_t const i : support) result[i] = 1;
        return result;
    }
    // Token i is drawn when fewer than n of the others arrive before it: the others before it in the row and those
    // behind it are counted apart, since taking one factor out of a product is unstable.
    std::vector<double> before(support.size() * width);
    std::vector<double> all(width + 1);
    std::vector<double> behind(width);
    for (double s = detail::race_begin;; s += detail::race_step) {
        double const t = std::exp(s);
        std::fill(all.begin(), all.end(), 0.0);
        all[0] = 1;
        for (std::size_t k = 0; k < support.size(); ++k) {
            std::copy_n(all.begin(), width, before.begin() + static_cast<std::ptrdiff_t>(k * width));
            detail::add_racer(all, -std::expm1(-row[support[k]] * t));
        }
        std::fill(behind.begin(), behind.end(), 0.0);
        behind[0] = 1;
        for (std::size_t k = support.size(); k-- > 0;) {
            double const rate = row[support[k]] * t;
            double fewer = 0;
            double of_behind = 0;
            for (std::size_t c = 0; c < width; ++c) {
                of_behind += behind[c];
                fewer += before[k * width + (width - 1 - c)] * of_behind;
            }
            result[support[k]] += detail::race_step * rate * std::exp(-rate) * fewer;
            detail::add_racer(behind, -std::expm1(-rate));
        }
        double room = 0;  // for a token that has not arrived yet to be drawn still
        for (double const c : all) room += c;
        if (room < 1e-20) return result;
    }
}

/// P(all n tokens drawn from q without replacement lie in the first k tokens of `order`), for k = 0 .. order.size().
///
/// `order` names tokens of q, each once, those without mass left out or last; n is at most q's support. O(V n) time at
/// each of about a thousand points. `q` sums to 1.
[[nodiscard]] inline std::vector<double> sequential_inside(std::span<double const> q,
                                                           std::span<std::size_t const> order, index_t n) {
    std::size_t const size = order.size();
    std::vector<double> outside(size + 1, 0.0);  // summed from the far end: no cancellation
    for (std::size_t k = size; k-- > 0;) outside[k] = outside[k + 1] + q[order[k]];
    double least = 1;
    for (double const x : outside) least = x > 0 ? std::min(least, x) : least;
    double const end = std::log(45 / least);
    std::vector<double> result(size + 1, 0.0);
    std::vector<double> counts(static_cast<std::size_t>(n));
    for (double s = detail::race_begin; s < end; s += detail::race_step) {
        double const t = std::exp(s);
        std::fill(counts.begin(), counts.end(), 0.0);
        counts[0] = 1;
        for (std::size_t k = 1; k <= size; ++k) {
            detail::add_racer(counts, -std::expm1(-q[order[k - 1]] * t));
            if (k < counts.size()) continue;
            double fewer = 0;
            for (double const c : counts) fewer += c;
            // The first token outside arrives at t, and n of those inside were faster.
            double const rate = outside[k] * t;
            result[k] += detail::race_step * rate * std::exp(-rate) * std::max(1 - fewer, 0.0);
        }
    }
    for (std::size_t k = counts.size(); k <= size; ++k)
        if (!(outside[k] > 0)) result[k] = 1;
    return result;
}

}  // namespace multidraft::analysis
