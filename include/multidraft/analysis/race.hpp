// Sampling without replacement as a race of exponentials: the probabilities of the `sequential` law as one integral.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "multidraft/analysis/input.hpp"
#include "multidraft/base/config.hpp"

namespace MULTIDRAFT_NAMESPACE::analysis {

namespace detail {

// Token i arrives at time E_i / q_i with E_i exponential; the order of arrival is the order in which draws without
// replacement come. Given the time t, arrivals are independent, so probabilities are integrals over t of products. With
// t = exp(s) the trapezoid rule converges exponentially: at this step the error is below rounding.
inline constexpr double race_step = 0.1;
inline constexpr double race_begin = -45;  // exp(-45): less than 1e-19 of any arrival's probability is below it

/// The probability that at most `counts.size() - 1` tokens have arrived is the sum of `counts`; adds one more token,
/// which has arrived with probability `arrived`.
inline void add_racer(std::span<double> counts, double arrived) {
    for (std::size_t c = counts.size() - 1; c > 0; --c) counts[c] = counts[c] * (1 - arrived) + counts[c - 1] * arrived;
    counts[0] *= 1 - arrived;
}

// The following code processes all V tokens for several times at once, one time per lane, so that loops over lanes
// vectorise.
inline constexpr std::size_t race_lanes = 8;
using race_vector = std::array<double, race_lanes>;

/// exp(-x) - 1 and its scale: x = k ln 2 + r with |r| <= ln 2 / 2, exp(-x) = scale + scale * minus_one. Relative error
/// of `minus_one` a few ulp. x >= 0; from 700 on as 700. No branch.
struct decay {
    double minus_one;
    double scale;
    MULTIDRAFT_INLINE explicit decay(double x) {
        double const y = x < 700.0 ? x : 700.0;
        double const shifted = y * 1.4426950408889634 + 0x1.8p52;  // rounds to an integer, which is in the low bits
        double const k = shifted - 0x1.8p52;
        double const r = (k * 0x1.62e42fee00000p-1 - y) + k * 0x1.a39ef35793c76p-33;
        double e = 1.0 / 6227020800.0;
        e = e * r + 1.0 / 479001600.0;
        e = e * r + 1.0 / 39916800.0;
        e = e * r + 1.0 / 3628800.0;
        e = e * r + 1.0 / 362880.0;
        e = e * r + 1.0 / 40320.0;
        e = e * r + 1.0 / 5040.0;
        e = e * r + 1.0 / 720.0;
        e = e * r + 1.0 / 120.0;
        e = e * r + 1.0 / 24.0;
        e = e * r + 1.0 / 6.0;
        e = e * r + 0.5;
        minus_one = e * r * r + r;
        auto const bits = static_cast<std::uint64_t>(__builtin_bit_cast(std::int64_t, shifted));
        scale = __builtin_bit_cast(double, (std::uint64_t{1023} - bits) << 52);  // the low bits hold k
    }
    /// exp(-x).
    [[nodiscard]] MULTIDRAFT_INLINE double left() const { return scale * minus_one + scale; }
    /// 1 - exp(-x), to a few ulp however small x is.
    [[nodiscard]] MULTIDRAFT_INLINE double gone() const { return (1.0 - scale) - scale * minus_one; }
};

/// The times at which the integral of a race for n places is evaluated: exp(begin + i step), i = 0, 1, .. .
///
/// The weight function of an arrival at rate r, x exp(-x) with x = r t, sums to 1/step over all of them. So an integral
/// of it times the probability that a place is free is a sum, which can end once all places are taken. Before the first
/// time all places are free up to an error of exp((n + 1) begin) < 1e-18, and the sum is a geometric series.
struct race_times {
    // Both are multiples of 2^-10, so that begin + i step is exact.
    explicit race_times(index_t n)
        : step(std::floor(std::min(0.2, 0.6 / std::sqrt(static_cast<double>(n)) + 0x1p-10) * 0x1p10) * 0x1p-10),
          begin(std::floor(std::min(-42.0 / (static_cast<double>(n) + 1.0), -2.0))) {}

    /// The number of terms of the series in `before`.
    static constexpr std::size_t terms = 16;

    /// The times exp(begin + (first + i) step), i = 0, 1, ..
    [[nodiscard]] race_vector at(std::size_t first) const {
        race_vector t;
        for (std::size_t i = 0; i < race_lanes; ++i)
            t[i] = std::exp(std::min(begin + step * static_cast<double>(first + i), 690.0));
        return t;
    }
    /// The sum of step (r t)^m (-1)^(m-1) / (m-1)! over the times before the first, for r = 1: with r^m, over m = 1, 2,
    /// .. , the weight of arrivals before the first time.
    [[nodiscard]] double before(std::size_t m) const {
        double factor = step;
        for (std::size_t k = 1; k < m; ++k) factor /= -static_cast<double>(k);
        double const ratio = std::exp(-step * static_cast<double>(m));
        return factor * std::exp(begin * static_cast<double>(m)) * ratio / (1 - ratio);
    }

    double step;
    double begin;
};

/// The probabilities that a token of that rate has arrived by each of some times, and that it has not.
struct racer {
    race_vector gone;
    race_vector left;

    template <class Times>
    MULTIDRAFT_INLINE racer(double rate, Times const& times) {
        for (std::size_t i = 0; i < race_lanes; ++i) {
            decay const e(rate * times[i]);
            gone[i] = e.gone();
            left[i] = e.left();
        }
    }
};

/// counts[c] is the probability that exactly c tokens have arrived, c < counts.size(); adds one more token.
MULTIDRAFT_INLINE void add_racer(std::span<race_vector> counts, racer const& x) {
    for (std::size_t c = counts.size() - 1; c > 0; --c)
        for (std::size_t i = 0; i < race_lanes; ++i)
            counts[c][i] = counts[c][i] * x.left[i] + counts[c - 1][i] * x.gone[i];
    for (std::size_t i = 0; i < race_lanes; ++i) counts[0][i] *= x.left[i];
}

}  // namespace detail

/// The probability, for every token, that it is among n tokens drawn from q without replacement.
///
/// Sums to min(n, support of q). Exact up to rounding; O(V n) time at each of about a thousand points, O(V n) memory.
/// Throws `invalid_input` for a row that is not a distribution and for n < 1.
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
    // Token i is drawn when fewer than n of the others arrive before it. Those before and after it in the row are
    // counted separately, since removing one factor from a product is unstable.
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
        double room = 0;  // probability that a token which has not arrived yet can still be drawn
        for (double const c : all) room += c;
        if (room < 1e-20 || t > 1e299) return result;
    }
}

/// The sum of weights[i] times the probability that token i is among n tokens drawn from q without replacement: a
/// weighted sum of `sequential_inclusion`, in memory independent of V.
///
/// O(V n) at some hundred points. `q` sums to 1 and the weights are nonnegative. Throws `invalid_input` for n < 1 and
/// another number of weights than tokens.
[[nodiscard]] inline double sequential_drafted_mass(std::span<double const> q, std::span<double const> weights,
                                                    index_t n) {
    if (n < 1) refuse("n", n, "one token or more is drawn");
    if (weights.size() != q.size()) refuse("weights.size", weights.size(), "every token has a weight");
    std::vector<double> rates;
    std::vector<double> worth;  // q times weight
    double all = 0;
    for (std::size_t i = 0; i < q.size(); ++i) {
        if (!(q[i] > 0)) continue;
        rates.push_back(q[i]);
        worth.push_back(q[i] * weights[i]);
        all += weights[i];
    }
    auto const width = static_cast<std::size_t>(n);
    if (rates.size() <= width) return all;

    detail::race_times const times(n);
    double result = 0;
    std::array<double, detail::race_times::terms> powers{};  // sums of weight q^m
    for (std::size_t i = 0; i < rates.size(); ++i) {
        double power = worth[i];
        for (double& sum : powers) {
            sum += power;
            power *= rates[i];
        }
    }
    for (std::size_t m = 0; m < powers.size(); ++m) result += times.before(m + 1) * powers[m];

    // free[c]: exactly c tokens have arrived. drafted[c]: the same of all but one, summed over which one arrives now,
    // at rate q times weight. Both gain a factor a token, as a product and its derivative do.
    std::vector<detail::race_vector> free(width);
    std::vector<detail::race_vector> drafted(width);
    for (std::size_t first = 0;; first += detail::race_lanes) {
        auto const t = times.at(first);
        std::fill(free.begin(), free.end(), detail::race_vector{});
        std::fill(drafted.begin(), drafted.end(), detail::race_vector{});
        free[0].fill(1.0);
        for (std::size_t k = 0; k < rates.size(); ++k) {
            detail::racer const x(rates[k], t);
            detail::add_racer(drafted, x);
            for (std::size_t c = 0; c < width; ++c)
                for (std::size_t i = 0; i < detail::race_lanes; ++i) drafted[c][i] += worth[k] * x.left[i] * free[c][i];
            detail::add_racer(free, x);
        }
        double room = 0;  // for a token that arrives after the last of these times
        for (std::size_t i = 0; i < detail::race_lanes; ++i) {
            double density = 0;
            room = 0;
            for (std::size_t c = 0; c < width; ++c) {
                density += drafted[c][i];
                room += free[c][i];
            }
            result += times.step * t[i] * density;
        }
        if (room < 1e-18 || t.back() > 1e299) return std::min(result, all);
    }
}

/// P(all n tokens drawn without replacement from the rates `q` lie in the first k of them), for k = 0 .. q.size().
///
/// Rates sum to 1; those of 0 come last; n is at most the number of the others. The prefixes share the points of the
/// integral: O(V n) at about a hundred of them. Error below 1e-13. Throws `invalid_input` for n < 1.
[[nodiscard]] inline std::vector<double> sequential_inside(std::span<double const> q, index_t n) {
    if (n < 1) refuse("n", n, "one token or more is drawn");
    std::size_t const size = q.size();
    auto const width = static_cast<std::size_t>(n);
    std::vector<double> outside(size + 1, 0.0);  // summed from the far end: no cancellation
    for (std::size_t k = size; k-- > 0;) outside[k] = outside[k + 1] + q[k];
    std::size_t end = size;  // no mass is outside from there on
    while (end > 0 && !(outside[end - 1] > 0)) --end;

    // n of the tokens inside arrive before the first one outside: 1 minus the integral over t of the density of the
    // first arrival outside times the probability that fewer than n inside have arrived.
    detail::race_times const times(n);
    std::vector<double> result(size + 1, 0.0);
    for (std::size_t k = width; k <= size; ++k) {
        result[k] = 1;
        double power = 1;
        for (std::size_t m = 1; m <= detail::race_times::terms && k < end; ++m) {
            power *= outside[k];
            if (!(power > 1e-300)) break;
            result[k] -= times.before(m) * power;
        }
    }
    std::vector<detail::race_vector> counts(width);
    for (std::size_t first = 0;; first += detail::race_lanes) {
        auto const t = times.at(first);
        std::fill(counts.begin(), counts.end(), detail::race_vector{});
        counts[0].fill(1.0);
        double open = 0;  // bound of the rest of the integral: no arrival outside yet, fewer than n inside
        for (std::size_t k = 1; k < end; ++k) {
            detail::add_racer(counts, detail::racer(q[k - 1], t));
            if (k < width || outside[k] * t[0] > 60) continue;
            detail::race_vector fewer = counts[0];
            for (std::size_t c = 1; c < width; ++c)
                for (std::size_t i = 0; i < detail::race_lanes; ++i) fewer[i] += counts[c][i];
            detail::race_vector density;
            for (std::size_t i = 0; i < detail::race_lanes; ++i) {
                double const rate = outside[k] * t[i];
                fewer[i] *= detail::decay(rate).left();
                density[i] = rate * fewer[i];
            }
            result[k] -= times.step * (((density[0] + density[4]) + (density[1] + density[5])) +
                                       ((density[2] + density[6]) + (density[3] + density[7])));
            open = std::max(open, fewer.back());
        }
        if (open < 1e-18 || t.back() > 1e299) break;
    }
    for (std::size_t k = width; k <= size; ++k) result[k] = std::clamp(result[k], 0.0, 1.0);
    return result;
}

}  // namespace MULTIDRAFT_NAMESPACE::analysis
