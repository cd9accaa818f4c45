// Acceptance rates of recursive rejection without replacement at large vocabularies: a residual is one number.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "multidraft/analysis/input.hpp"
#include "multidraft/analysis/ratio_rows.hpp"
#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"

namespace MULTIDRAFT_NAMESPACE::analysis {

/// A rate that was estimated from random numbers, and the standard error of the estimate.
struct estimated_rate {
    double mean = 0;
    double standard_error = 0;
};

namespace detail {

/// The rejected prefixes of one pair of rows.
///
/// After some rejections the residual is (p - c q)+ / T(c) for a scalar c, where T(c) is the sum of (p - c q)+. A
/// rejected token has p < c q, so its entry is 0; the others have only lost multiples of q. The next candidate comes
/// from q / rest, where rest is the mass not drafted yet; when it is rejected c grows by T(c) / rest. Token x is the
/// one rejected with probability q(x) (c' - max(p(x)/q(x), c))+ / T(c), and the probability that the last candidate is
/// rejected, whichever it is, is T(c') / T(c).
class rejected_prefixes {
public:
    explicit rejected_prefixes(ratio_rows const& rows, index_t n)
        : rows_(rows), drafted_(std::min(n, rows.support())), top_(rows.top(drafted_)) {
        std::size_t const size = rows.size();
        ratio_.resize(size);
        for (std::size_t k = 0; k < size; ++k)
            ratio_[k] = rows.q()[k] > 0 ? rows.p()[k] / rows.q()[k] : std::numeric_limits<double>::infinity();
        p_behind_.assign(size + 1, 0.0);
        q_behind_.assign(size + 1, 0.0);
        for (std::size_t k = size; k-- > 0;) {
            p_behind_[k] = p_behind_[k + 1] + rows.p()[k];
            q_behind_[k] = q_behind_[k + 1] + rows.q()[k];
        }
        std::sort(top_.begin(), top_.end());
        p_before_.assign(size + 1, 0.0);
        q_before_.assign(size + 1, 0.0);
        auto next = top_.begin();
        for (std::size_t k = 0; k < size; ++k) {
            bool const is_top = next != top_.end() && *next == k;
            if (is_top) ++next;
            p_before_[k + 1] = p_before_[k] + (is_top ? 0.0 : rows.p()[k]);
            q_before_[k + 1] = q_before_[k] + (is_top ? 0.0 : rows.q()[k]);
        }
    }

    [[nodiscard]] index_t drafted() const noexcept { return drafted_; }

    /// The probability that all candidates are rejected, over all prefixes of rejected ones. O(V^(n-1) log V).
    [[nodiscard]] double all_rejected() const {
        std::vector<std::size_t> rejected;
        return rejected_after(0.0, excess(0.0), rejected);
    }

    /// The same along one random prefix, given the uniform number for its first token.
    template <class Uniform>
    [[nodiscard]] double all_rejected_along(double first, Uniform&& uniform) const {
        double c = 0;
        double left = excess(c);
        double result = 1;
        std::vector<std::size_t> rejected;
        for (index_t k = 1;; ++k) {
            double const mass = rest(rejected);
            if (!(left > 0)) return 0;
            if (!(mass > 0)) return result;
            double const next = std::min(c + left / mass, 1e300);
            double const after = excess(next);
            result *= std::min(after / left, 1.0);
            if (k == drafted_ || !(result > 0)) return result;
            std::size_t const x = pick(c, next, k == 1 ? first : uniform(), rejected);
            if (x == rows_.size()) return result;
            rejected.insert(std::upper_bound(rejected.begin(), rejected.end(), x), x);
            c = next;
            left = after;
        }
    }

private:
    /// T(c).
    [[nodiscard]] double excess(double c) const {
        auto const k = static_cast<std::size_t>(std::upper_bound(ratio_.begin(), ratio_.end(), c) - ratio_.begin());
        return std::max(p_behind_[k] - c * q_behind_[k], 0.0);
    }

    [[nodiscard]] bool is_top(std::size_t k) const { return std::binary_search(top_.begin(), top_.end(), k); }
    [[nodiscard]] static bool holds(std::span<std::size_t const> tokens, std::size_t k) {
        return std::find(tokens.begin(), tokens.end(), k) != tokens.end();
    }

    /// The remaining mass of q, accurate even where almost all of it is gone: the tokens of largest mass are added one
    /// by one.
    [[nodiscard]] double rest(std::span<std::size_t const> rejected) const {
        double sum = q_before_.back();
        for (std::size_t const k : top_) sum += holds(rejected, k) ? 0.0 : rows_.q()[k];
        for (std::size_t const k : rejected) sum -= is_top(k) ? 0.0 : rows_.q()[k];
        return sum;
    }

    [[nodiscard]] double rejected_after(double c, double left, std::vector<std::size_t>& rejected) const {
        double const mass = rest(rejected);
        if (!(left > 0)) return 0;
        if (!(mass > 0)) return 1;
        double const next = std::min(c + left / mass, 1e300);
        double const after = excess(next);
        auto const depth = static_cast<index_t>(rejected.size()) + 1;
        if (depth == drafted_) return std::min(after / left, 1.0);
        if (!(after > 0)) return 0;
        double result = 0;
        for (std::size_t x = 0; x < rows_.size() && ratio_[x] < next; ++x) {
            if (holds(rejected, x)) continue;
            double const chance = rows_.q()[x] * (next - std::max(ratio_[x], c)) / left;
            rejected.push_back(x);
            result += chance * rejected_after(next, after, rejected);
            rejected.pop_back();
        }
        return std::min(result, 1.0);
    }

    /// The token rejected next, from a uniform number; `rejected` is in increasing order. The size of the rows when
    /// there is none.
    [[nodiscard]] std::size_t pick(double c, double next, double u, std::span<std::size_t const> rejected) const {
        auto const at = [&](double ratio) {
            return static_cast<std::size_t>(std::lower_bound(ratio_.begin(), ratio_.end(), ratio) - ratio_.begin());
        };
        std::size_t const end = at(next);
        auto const weight = [&](std::size_t k) {
            return k < end ? rows_.q()[k] * (next - std::max(ratio_[k], c)) : 0.0;
        };
        double top = 0;
        for (std::size_t const k : top_) top += holds(rejected, k) ? 0.0 : weight(k);
        // The others by their running sum, minus the rejected ones.
        std::size_t const flat = std::min(at(c), end);
        auto const before = [&](std::size_t k) {
            double const sum = (next - c) * q_before_[std::min(k, flat)];
            return k <= flat ? sum : sum + next * (q_before_[k] - q_before_[flat]) - (p_before_[k] - p_before_[flat]);
        };
        double others = before(end);
        for (std::size_t const k : rejected) others -= is_top(k) ? 0.0 : weight(k);
        // Where the rejected ones are almost everything the difference has lost its digits.
        if (!(top + others > 1e-6 * (next * q_before_[end]))) return pick_one_by_one(weight, end, u, rejected);

        double target = u * (top + std::max(others, 0.0));
        for (std::size_t const k : top_) {
            if (holds(rejected, k)) continue;
            if (target < weight(k)) return k;
            target -= weight(k);
        }
        for (std::size_t const k : rejected)
            if (!is_top(k) && target >= before(k)) target += weight(k);
        std::size_t low = 0;  // the first place whose running sum exceeds the target
        std::size_t high = end;
        while (low < high) {
            std::size_t const middle = low + (high - low) / 2;
            if (before(middle + 1) > target)
                high = middle;
            else
                low = middle + 1;
        }
        if (low == end || is_top(low) || holds(rejected, low) || !(weight(low) > 0))  // rounding at a border
            return pick_one_by_one(weight, end, u, rejected);
        return low;
    }

    template <class Weight>
    [[nodiscard]] std::size_t pick_one_by_one(Weight const& weight, std::size_t end, double u,
                                              std::span<std::size_t const> rejected) const {
        double total = 0;
        for (std::size_t k = 0; k < end; ++k) total += holds(rejected, k) ? 0.0 : weight(k);
        double const target = u * total;
        double sum = 0;
        std::size_t last = rows_.size();
        for (std::size_t k = 0; k < end; ++k) {
            if (holds(rejected, k) || !(weight(k) > 0)) continue;
            last = k;
            sum += weight(k);
            if (sum > target) break;
        }
        return last;
    }

    ratio_rows const& rows_;
    index_t drafted_;
    std::vector<std::size_t> top_;  // the indices of the tokens of largest draft mass, in increasing order
    std::vector<double> ratio_;
    std::vector<double> p_behind_;
    std::vector<double> q_behind_;
    std::vector<double> p_before_;  // without the top tokens
    std::vector<double> q_before_;
};

}  // namespace detail

/// Whether `acceptance_by_rejected_prefixes` accepts a support of V tokens and n drafts: V^(n-1) up to 10^6.
[[nodiscard]] inline bool can_walk_prefixes(index_t support, index_t n) {
    return std::pow(static_cast<double>(support), std::min(n, support) - 1) <= 1e6;
}

/// Recursive rejection of n drafts without replacement ([MCSD] Alg. 2; [RSD] Alg. 1), exactly. O(V^(n-1) log V).
///
/// Throws `invalid_input` for n < 1 and, naming n, when V^(n-1) is above 10^6: see `estimate_recursive_sequential`.
[[nodiscard]] inline double acceptance_by_rejected_prefixes(ratio_rows const& rows, index_t n) {
    detail::check_count(n);
    if (!can_walk_prefixes(rows.support(), n))
        refuse("n", n, "too many rejected prefixes to walk (V^(n-1) is above 10^6): estimate this rate");
    return std::clamp(1 - detail::rejected_prefixes(rows, n).all_rejected(), 0.0, 1.0);
}

/// The same rate by Monte Carlo, unbiased, with its standard error: the prefix of rejected tokens is drawn, everything
/// else is exact. O(n log V) a sample.
///
/// First tokens are drawn from equal strata, which removes most of the variance; the error is that of the mean of 32
/// independent rounds. Where a first token of a mass like 1 / samples decides, all rounds may miss it: the error is
/// then far too small. Equal seeds give equal estimates. Throws `invalid_input` for n < 1 and for fewer than 32
/// samples.
[[nodiscard]] inline estimated_rate estimate_recursive_sequential(ratio_rows const& rows, index_t n,
                                                                  std::int64_t samples = 16384,
                                                                  std::uint64_t seed = 1) {
    constexpr std::int64_t rounds = 32;
    detail::check_count(n);
    if (samples < rounds) refuse("samples", samples, "there is one sample or more in each of 32 rounds");
    detail::rejected_prefixes const prefixes(rows, n);
    std::mt19937_64 generator(seed);
    auto const uniform = [&] { return static_cast<double>(generator() >> 11) * 0x1p-53; };
    std::int64_t const strata = samples / rounds;
    double sum = 0;
    std::vector<double> means;
    for (std::int64_t r = 0; r < rounds; ++r) {
        double of_round = 0;
        for (std::int64_t k = 0; k < strata; ++k) {
            double const first = (static_cast<double>(k) + uniform()) / static_cast<double>(strata);
            of_round += prefixes.all_rejected_along(first, uniform);
        }
        means.push_back(of_round / static_cast<double>(strata));
        sum += means.back();
    }
    double const mean = sum / rounds;
    double squares = 0;
    for (double const m : means) squares += (m - mean) * (m - mean);
    return {std::clamp(1 - mean, 0.0, 1.0), std::sqrt(squares / (rounds * (rounds - 1)))};
}

}  // namespace MULTIDRAFT_NAMESPACE::analysis
