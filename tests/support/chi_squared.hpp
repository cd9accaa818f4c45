// Chi-squared tests with one failure budget for the whole suite.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "multidraft/base/config.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

/// The names of all chi-squared tests of the suite. Their number divides the budget, so every new test is declared
/// here; each runs once.
enum class chi_squared_test : int {
    iid_first_32k,
    iid_second_32k,
    iid_pairs_32k,
    iid_first_128k,
    sequential_first_32k,
    sequential_second_32k,
    sequential_first_128k,
    sequential_second_128k,
    gumbel_first_32k,
    gumbel_second_32k,
    gumbel_small,
    gumbel_first_128k,
    gumbel_second_128k,
    emitted_recursive_iid_32k,
    emitted_recursive_sequential_32k,
    emitted_recursive_gumbel_32k,
    emitted_recursive_processed_32k,
    emitted_naive_32k,
    emitted_recursive_iid_128k,
    emitted_recursive_sequential_128k,
    emitted_naive_128k,
    accepted_one_32k,
    streams_draft_acceptance,
    streams_draft_residual,
    streams_acceptance_residual,
    streams_two_candidates,
    streams_parent_and_child,
    streams_two_positions,
    streams_two_requests,
    stochastic_beam_pairs,
    stochastic_beam_order,
    stochastic_beam_text,
    binned_nested_iid_trees,
    binned_nested_stratified_trees,
    continued_turns,
    count,
};

/// The probability that a correct library would fail the suite if seeds were random. They are fixed, so that the
/// outcome is reproducible.
inline constexpr double failure_budget = 1e-6;

/// The significance level of one test: an equal part of the budget (Bonferroni).
inline constexpr double failure_level = failure_budget / static_cast<double>(chi_squared_test::count);

/// The regularised upper incomplete gamma function Q(a, x) = Gamma(a, x) / Gamma(a), a > 0, x >= 0.
[[nodiscard]] inline double upper_gamma(double a, double x) {
    if (!(x > 0)) return 1;
    if (std::isinf(x)) return 0;
    double const scale = std::exp(a * std::log(x) - x - std::lgamma(a));
    if (x < a + 1) {  // the series of the lower function: sum of x^k / (a (a + 1) .. (a + k))
        double term = 1 / a;
        double sum = term;
        for (double k = 1; k < 100000 && term > sum * 1e-17; ++k) {
            term *= x / (a + k);
            sum += term;
        }
        return 1 - scale * sum;
    }
    // The continued fraction 1 / (x + 1 - a - 1 (1 - a) / (x + 3 - a - 2 (2 - a) / (x + 5 - a - ..))), by Lentz.
    double b = x + 1 - a;
    double c = 1e300;
    double d = 1 / b;
    double fraction = d;
    for (double k = 1; k < 100000; ++k) {
        double const numerator = -k * (k - a);
        b += 2;
        d = 1 / (numerator * d + b);
        c = b + numerator / c;
        fraction *= d * c;
        if (std::abs(d * c - 1) < 1e-16) break;
    }
    return scale * fraction;
}

/// A chi-squared statistic and its degrees of freedom. Statistics of independent counts add up.
struct chi_squared {
    double statistic = 0;
    double freedom = 0;

    /// The probability of a statistic at least as large.
    [[nodiscard]] double p_value() const { return upper_gamma(freedom / 2, statistic / 2); }

    chi_squared& operator+=(chi_squared const& other) noexcept {
        statistic += other.statistic;
        freedom += other.freedom;
        return *this;
    }
};

/// Compares counts with the counts expected: (n - e)^2 / e, one degree of freedom less than there are categories. A
/// count where nothing is expected makes the statistic infinite.
[[nodiscard]] inline chi_squared compare(std::vector<std::uint64_t> const& counts,
                                         std::vector<double> const& expected) {
    chi_squared result;
    for (std::size_t i = 0; i < counts.size(); ++i) {
        auto const n = static_cast<double>(counts[i]);
        if (expected[i] > 0) {
            result.statistic += (n - expected[i]) * (n - expected[i]) / expected[i];
            result.freedom += 1;
        } else if (n > 0) {
            result.statistic = std::numeric_limits<double>::infinity();
        }
    }
    result.freedom -= 1;
    return result;
}

/// A law over a large vocabulary, pooled into bins with sufficient expected counts.
///
/// Tokens are taken in order of probability, largest first. Each bin is filled until `draws` draws are expected to put
/// at least max(10, draws / 500) into it, so likely tokens have bins of their own and others share. Tokens without mass
/// have one more bin, which must stay empty.
class pooled_law {
public:
    pooled_law(std::vector<double> const& law, double draws) : bin_of_(law.size()) {
        double const least = std::max(10.0, draws / 500);
        double const total = std::accumulate(law.begin(), law.end(), 0.0);
        std::vector<std::size_t> order(law.size());
        std::iota(order.begin(), order.end(), std::size_t{0});
        std::sort(order.begin(), order.end(),
                  [&](std::size_t a, std::size_t b) { return law[a] > law[b] || (law[a] == law[b] && a < b); });
        share_.push_back(0);
        for (std::size_t const x : order) {
            if (!(law[x] > 0)) break;
            if (share_.back() * draws >= least) share_.push_back(0);
            share_.back() += law[x] / total;
            bin_of_[x] = share_.size() - 1;
        }
        if (share_.size() > 1 && share_.back() * draws < least) {  // the remainder goes to the preceding bin
            double const rest = share_.back();
            share_.pop_back();
            share_.back() += rest;
            for (std::size_t& b : bin_of_) b = std::min(b, share_.size() - 1);
        }
        for (std::size_t x = 0; x < law.size(); ++x)
            if (!(law[x] > 0)) bin_of_[x] = share_.size();
        share_.push_back(0);
    }

    [[nodiscard]] std::size_t bins() const noexcept { return share_.size(); }
    [[nodiscard]] std::size_t operator()(token_id x) const { return bin_of_.at(static_cast<std::size_t>(x)); }

    /// Counts of tokens against this law.
    [[nodiscard]] chi_squared test(std::vector<token_id> const& drawn) const {
        std::vector<std::uint64_t> counts(bins());
        for (token_id const x : drawn) ++counts[(*this)(x)];
        std::vector<double> expected(bins());
        for (std::size_t b = 0; b < bins(); ++b) expected[b] = share_[b] * static_cast<double>(drawn.size());
        return compare(counts, expected);
    }

private:
    std::vector<std::size_t> bin_of_;
    std::vector<double> share_;
};

}  // namespace MULTIDRAFT_NAMESPACE::testing
