// Confidence intervals by the bootstrap: of a mean, of a ratio of sums, of any statistic of runs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <unordered_map>
#include <vector>

#include "multidraft/base/error.hpp"
#include "multidraft/random/philox.hpp"

namespace MULTIDRAFT_NAMESPACE::analysis {

/// How the ends of the interval are obtained from the resampled statistics.
enum class bootstrap_kind {
    percentile,
    bca,  ///< bias-corrected and accelerated (Efron 1987)
};

/// The options of an interval: `rounds` resamplings, and the fraction `confidence` of them that it contains.
struct bootstrap_options {
    std::int32_t rounds = 2000;
    double confidence = 0.95;
    std::uint64_t seed = 0;  ///< equal seeds give equal intervals
    bootstrap_kind kind = bootstrap_kind::bca;
};

/// A statistic and the ends of its interval.
struct estimate {
    double value = 0;
    double low = 0;  ///< with fewer than two samples both ends are the value, since its spread is unknown
    double high = 0;
    std::size_t samples = 0;
};

namespace detail {

/// Phi(x).
[[nodiscard]] inline double normal_below(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

/// The x with Phi(x) = u, by bisection; u is kept away from 0 and 1.
[[nodiscard]] inline double normal_quantile(double u) {
    double low = -9;
    double high = 9;
    for (int i = 0; i < 80; ++i) {
        double const middle = 0.5 * (low + high);
        (normal_below(middle) < u ? low : high) = middle;
    }
    return 0.5 * (low + high);
}

/// The u-quantile of sorted values, linear between neighbours.
[[nodiscard]] inline double quantile(std::vector<double> const& sorted, double u) {
    double const place = std::clamp(u, 0.0, 1.0) * static_cast<double>(sorted.size() - 1);
    auto const below = static_cast<std::size_t>(place);
    auto const above = std::min(below + 1, sorted.size() - 1);
    return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

/// A number in [0, n) from a word; the bias of at most n / 2^32 is far below the bootstrap's own error.
[[nodiscard]] inline std::size_t below(std::uint32_t word, std::size_t n) {
    return static_cast<std::size_t>((static_cast<std::uint64_t>(word) * n) >> 32);
}

/// The statistic of every round's samples; `indices` has one element for each sample and is overwritten.
template <class Statistic>
[[nodiscard]] std::vector<double> resampled(std::vector<std::size_t>& indices, Statistic const& of,
                                            bootstrap_options const& options) {
    philox_key const key{{static_cast<std::uint32_t>(options.seed), static_cast<std::uint32_t>(options.seed >> 32)}};
    std::vector<double> found(static_cast<std::size_t>(options.rounds));
    for (std::size_t r = 0; r < found.size(); ++r) {
        philox_block words{};
        for (std::size_t i = 0; i < indices.size(); ++i) {
            if (i % 4 == 0)
                words = philox4x32({{static_cast<std::uint32_t>(i / 4), static_cast<std::uint32_t>(r), 0, 0}}, key);
            indices[i] = below(words.word[i % 4], indices.size());
        }
        found[r] = of(indices);
    }
    return found;
}

/// The normal quantile of the fraction of rounds below the value, with ties counted half.
[[nodiscard]] inline double bca_bias(std::vector<double> const& sorted, double value) {
    auto const range = std::equal_range(sorted.begin(), sorted.end(), value);
    double const less = static_cast<double>(range.first - sorted.begin());
    double const equal = static_cast<double>(range.second - range.first);
    return normal_quantile((less + 0.5 * equal) / static_cast<double>(sorted.size()));
}

/// The acceleration, from the statistic of n samples without one sample each.
template <class Statistic>
[[nodiscard]] double bca_acceleration(std::size_t n, Statistic const& of) {
    std::vector<double> without(n);
    std::vector<std::size_t> others(n - 1);
    for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t k = 0; k < n - 1; ++k) others[k] = k < i ? k : k + 1;
        without[i] = of(others);
    }
    double const mean = std::accumulate(without.begin(), without.end(), 0.0) / static_cast<double>(n);
    double squares = 0;
    double cubes = 0;
    for (double const x : without) {
        squares += (mean - x) * (mean - x);
        cubes += (mean - x) * (mean - x) * (mean - x);
    }
    return squares > 0 ? cubes / (6 * std::pow(squares, 1.5)) : 0;
}

/// Maps a quantile u of the statistic to a quantile of the rounds.
struct bca_correction {
    double bias;
    double acceleration;

    [[nodiscard]] double operator()(double u) const {
        double const x = bias + normal_quantile(u);
        double const stretch = 1 - acceleration * x;
        // Beyond its pole the correction is undefined: that end is the extreme value found.
        return stretch > 0 ? normal_below(bias + x / stretch) : (x > 0 ? 1.0 : 0.0);
    }
};

}  // namespace detail

/// The interval of `statistic(indices)` over n samples that are independent of each other: prompts or runs, not the
/// tokens of one text. `indices` are samples, drawn with replacement.
///
/// rounds + n calls of the statistic. Round r and place i read word i of the Philox stream (seed, r). Throws
/// `invalid_input` for no samples, 2^32 or more, fewer than 2 rounds, a confidence outside (0, 1) and a statistic that
/// is not finite.
template <class Statistic>
[[nodiscard]] estimate bootstrap(std::size_t n, Statistic statistic, bootstrap_options const& options = {}) {
    if (n < 1 || n >= (std::size_t{1} << 32)) refuse("samples", n, "there are 1 to 2^32 - 1 samples");
    if (options.rounds < 2) refuse("rounds", options.rounds, "a bootstrap has two rounds or more");
    if (!(options.confidence > 0 && options.confidence < 1))
        refuse("confidence", options.confidence, "a confidence lies in (0, 1)");
    auto const of = [&](std::vector<std::size_t> const& indices) {
        double const x = statistic(std::span<std::size_t const>(indices));
        if (!std::isfinite(x)) refuse("statistic", x, "the statistic is finite for every resampling of the samples");
        return x;
    };
    std::vector<std::size_t> indices(n);
    std::iota(indices.begin(), indices.end(), std::size_t{0});
    estimate result;
    result.samples = n;
    result.value = result.low = result.high = of(indices);
    if (n < 2) return result;

    auto found = detail::resampled(indices, of, options);
    std::sort(found.begin(), found.end());
    double const tail = 0.5 * (1 - options.confidence);
    double from = tail;
    double to = 1 - tail;
    if (options.kind == bootstrap_kind::bca && found.front() < found.back()) {
        detail::bca_correction const correct{detail::bca_bias(found, result.value), detail::bca_acceleration(n, of)};
        from = correct(tail);
        to = correct(1 - tail);
    }
    result.low = detail::quantile(found, from);
    result.high = detail::quantile(found, to);
    return result;
}

/// Of the mean of some values.
[[nodiscard]] inline estimate bootstrap_mean(std::span<double const> values, bootstrap_options const& options = {}) {
    return bootstrap(
        values.size(),
        [&](std::span<std::size_t const> indices) {
            double sum = 0;
            for (std::size_t const i : indices) sum += values[i];
            return sum / static_cast<double>(indices.size());
        },
        options);
}

/// Values that come in groups, added up: one entry a group, in the order in which groups are first met.
struct cluster_sums {
    std::vector<double> sums;
    std::vector<double> counts;  ///< how many values there are in it
};

/// Adds up the values of each group. Throws `invalid_input` for lists of different lengths.
[[nodiscard]] inline cluster_sums sums_of_clusters(std::span<double const> values,
                                                   std::span<std::int64_t const> groups) {
    if (groups.size() != values.size()) refuse("groups.size", groups.size(), "every value is in a group");
    std::unordered_map<std::int64_t, std::size_t> index;
    cluster_sums result;
    for (std::size_t i = 0; i < values.size(); ++i) {
        auto const [at, is_new] = index.try_emplace(groups[i], result.sums.size());
        if (is_new) {
            result.sums.push_back(0);
            result.counts.push_back(0);
        }
        result.sums[at->second] += values[i];
        result.counts[at->second] += 1;
    }
    return result;
}

/// Of sum(above) / sum(below): tokens per target call, accepted per tried, tokens per second. 0 where the lower sum is
/// 0.
///
/// Throws `invalid_input` for lists of different lengths too, and for numbers below that are negative or not finite.
[[nodiscard]] inline estimate bootstrap_ratio(std::span<double const> above, std::span<double const> below,
                                              bootstrap_options const& options = {}) {
    if (above.size() != below.size()) refuse("below.size", below.size(), "every sample has both numbers");
    for (std::size_t i = 0; i < below.size(); ++i)
        if (!(below[i] >= 0 && std::isfinite(below[i])))
            refuse("below", static_cast<std::int64_t>(i), below[i], "a number below is finite and not negative");
    return bootstrap(
        above.size(),
        [&](std::span<std::size_t const> indices) {
            double upper = 0;
            double lower = 0;
            for (std::size_t const i : indices) {
                upper += above[i];
                lower += below[i];
            }
            return lower > 0 ? upper / lower : 0.0;
        },
        options);
}

/// Of the mean of values that come in groups, such as the rows of one text: groups are resampled, each with all of its
/// values, so that values of one group may depend on each other (the cluster bootstrap). `samples` are groups.
///
/// `groups` has the number of its group for each value, any number, in any order. Values in groups of one each give
/// what `bootstrap_mean` gives. The interval of a few groups is too short: below some twenty take it with care. Throws
/// `invalid_input` for lists of different lengths too.
[[nodiscard]] inline estimate bootstrap_clustered_mean(std::span<double const> values,
                                                       std::span<std::int64_t const> groups,
                                                       bootstrap_options const& options = {}) {
    auto const of_clusters = sums_of_clusters(values, groups);
    return bootstrap_ratio(of_clusters.sums, of_clusters.counts, options);
}

}  // namespace MULTIDRAFT_NAMESPACE::analysis
