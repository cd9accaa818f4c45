// Where in [0, 1] the ranks of each token lie, so that the token with the best rank has a wanted law.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "multidraft/core/config.hpp"

namespace multidraft::verify {

// On the host, in double: the exact form, by sorting.

/// A token, or tokens that are treated as one: its part of the target and of the law of one draw.
struct ranked_token {
    double p = 0;
    double q = 0;
};

/// The law m of the candidate that accepts most: a law that the best of the draws can have.
///
/// `best(t)` is G: the probability that the best rank is below t, concave, G(0) = 0, G(1) = 1; for j independent draws
/// 1 - (1 - t)^j. `base` is the target's mass on the certain tokens, p that on the others (the rest of the sum), q
/// their law, with sum 1. Then sum min(p, m) + base is alpha*, for every concave G (the marginal of ranked
/// verification: H, the minimising prefix of alpha*, is lifted to G's mass, the rest capped). O(V log V).
template <class Best>
[[nodiscard]] std::vector<double> ranked_marginal(std::vector<ranked_token> const& tokens, Best const& best,
                                                  double base) {
    std::size_t const n = tokens.size();
    auto const ratio = [&](std::size_t i) {
        return tokens[i].q > 0 ? tokens[i].p / tokens[i].q : std::numeric_limits<double>::infinity();
    };
    std::vector<std::size_t> order(n);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::vector<double> ratios(n);
    for (std::size_t i = 0; i < n; ++i) ratios[i] = ratio(i);
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return ratios[a] < ratios[b] || (ratios[a] == ratios[b] && a < b); });

    // The prefix H with the least base + p(H) - Q(H); the empty one has 0.
    std::size_t inside = 0;
    double least = 0;
    double mass_inside = 0;  // Q(H)
    {
        double sum_p = 0;
        double sum_q = 0;
        for (std::size_t k = 0; k < n; ++k) {
            sum_p += tokens[order[k]].p;
            sum_q = std::min(sum_q + tokens[order[k]].q, 1.0);
            double const covered = k + 1 == n ? 1.0 : 1 - best(1 - sum_q);
            double const value = base + sum_p - covered;
            if (value < least) {
                least = value;
                inside = k + 1;
                mass_inside = covered;
            }
        }
    }

    std::vector<double> m(n, 0.0);
    // m = max(p, c q) on order[first .. last), with a given sum.
    auto const lift = [&](std::size_t first, std::size_t last, double sum) {
        double left = 0;
        for (std::size_t k = first; k < last; ++k) left += tokens[order[k]].p;
        double c = 0;
        if (left < sum) {
            double lifted = 0;
            for (std::size_t k = first; k < last; ++k) {
                left -= tokens[order[k]].p;
                lifted += tokens[order[k]].q;
                c = lifted > 0 ? (sum - std::max(left, 0.0)) / lifted : 0;
                if (k + 1 == last || c <= ratios[order[k + 1]]) break;
            }
        }
        for (std::size_t k = first; k < last; ++k) m[order[k]] = std::max(tokens[order[k]].p, c * tokens[order[k]].q);
    };
    if (base > 0 && inside == 0) {
        lift(0, n, 1.0);
        return m;
    }
    lift(0, inside, mass_inside);
    double const total = 1 - mass_inside;
    double reachable = 0;
    double all = 0;
    double left_q = 0;
    for (std::size_t k = inside; k < n; ++k) {
        all += tokens[order[k]].p;
        left_q += tokens[order[k]].q;
        if (tokens[order[k]].q > 0) reachable += tokens[order[k]].p;
    }
    if (reachable <= total + 1e-15) {
        for (std::size_t k = inside; k < n; ++k)
            m[order[k]] = all > 0 ? tokens[order[k]].p * (total / all) : total * tokens[order[k]].q;
        return m;
    }
    double before = 0;  // of the p below the cap
    double c = 0;
    for (std::size_t k = inside; k < n; ++k) {
        c = left_q > 0 ? (total - before) / left_q : ratios[order[k]];
        if (c <= ratios[order[k]]) break;
        before += tokens[order[k]].p;
        left_q = std::max(left_q - tokens[order[k]].q, 0.0);
    }
    for (std::size_t k = inside; k < n; ++k) m[order[k]] = std::min(tokens[order[k]].p, c * tokens[order[k]].q);
    return m;
}

/// A part of [0, 1], and G at its ends.
struct rank_interval {
    double begin = 0;
    double end = 0;
    double below_begin = 0;  ///< G(begin)
    double below_end = 0;    ///< G(end)

    [[nodiscard]] double length() const noexcept { return end - begin; }
    [[nodiscard]] double mass() const noexcept { return below_end - below_begin; }
};

/// The set of ranks of one block of tokens: intervals in increasing order. A drawn token's rank is uniform on its
/// block's set; sets of all blocks divide [0, 1], with the length of the block's q.
struct rank_set {
    std::vector<rank_interval> intervals;
    double length = 0;
    double mass = 0;  ///< of G: the probability that the best rank lies here
};

/// Sets of ranks with the lengths q and the G-masses m: the left-curtain coupling.
///
/// Tokens by m/q, largest first, each take an interval of what is left of [0, 1], glued together; tokens of one m/q are
/// a block and share theirs. `block_of` gets each token's block, -1 for tokens that are never drawn. The masses are m
/// up to rounding; they are recomputed from G, so whoever takes them for the law has the exact one. O(V log V), and a
/// few dozen evaluations of G a block.
template <class Best>
[[nodiscard]] std::vector<rank_set> make_rank_sets(std::vector<ranked_token> const& tokens,
                                                   std::vector<double> const& m, Best const& best,
                                                   std::vector<int>& block_of) {
    std::size_t const n = tokens.size();
    std::vector<double> density(n);
    for (std::size_t i = 0; i < n; ++i) density[i] = m[i] / std::max(tokens[i].q, 1e-300);
    std::vector<std::size_t> order(n);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return density[a] > density[b] || (density[a] == density[b] && a < b);
    });
    block_of.assign(n, -1);

    // The root of a decreasing function.
    auto const solve = [](auto const& f, double low, double high) {
        for (int k = 0; k < 60; ++k) {
            double const middle = 0.5 * (low + high);
            (f(middle) > 0 ? low : high) = middle;
        }
        return 0.5 * (low + high);
    };

    std::vector<std::pair<double, double>> gaps;  // what is left of the hole's left side, in increasing order
    double hole = 0;                              // the end of what is taken on the right
    std::vector<rank_set> sets;
    for (std::size_t i = 0; i < n;) {
        std::size_t k = i + 1;
        double const first = density[order[i]];
        while (k < n && std::abs(density[order[k]] - first) < 1e-9 * std::max(1.0, first)) ++k;
        double width = 0;
        double want = 0;
        for (std::size_t t = i; t < k; ++t) {
            width += tokens[order[t]].q;
            want += m[order[t]];
        }
        std::size_t const begin_block = i;
        i = k;
        if (!(width > 0)) continue;
        std::vector<std::pair<double, double>> pieces;
        double const end = std::min(hole + width, 1.0);
        double const after = best(end) - best(hole);
        if (after >= want - 1e-13) {
            double start = hole;
            if (end < 1 && after - want >= 1e-13)
                start =
                    solve([&](double t) { return best(std::min(t + width, 1.0)) - best(t) - want; }, hole, 1.0 - width);
            if (start > hole) gaps.emplace_back(hole, start);
            hole = std::min(start + width, 1.0);
            pieces.emplace_back(start, hole);
        } else {
            double taken = 0;
            double mass = 0;
            while (!gaps.empty() && taken < width) {
                auto const [x, y] = gaps.back();
                double const full = std::min(y - x, width - taken);
                auto const got = [&](double t) {
                    return mass + best(y) - best(y - t) + best(std::min(hole + width - taken - t, 1.0)) - best(hole);
                };
                double const all_of_it = got(full);
                if (full == y - x && all_of_it < want) {
                    gaps.pop_back();
                    pieces.emplace_back(x, y);
                    mass += best(y) - best(x);
                    taken += full;
                    continue;
                }
                double const t = all_of_it <= want ? full : solve([&](double s) { return want - got(s); }, 0.0, full);
                if (t >= y - x)
                    gaps.pop_back();
                else
                    gaps.back().second = y - t;
                if (t > 0) {
                    pieces.emplace_back(y - t, y);
                    taken += t;
                }
                break;
            }
            if (width - taken > 0) {
                double const begin = hole;
                hole = std::min(hole + width - taken, 1.0);
                pieces.emplace_back(begin, hole);
            }
        }
        std::sort(pieces.begin(), pieces.end());
        rank_set set;
        set.length = width;
        for (auto const& [a, b] : pieces) {
            set.intervals.push_back({a, b, best(a), best(b)});
            set.mass += set.intervals.back().mass();
        }
        for (std::size_t t = begin_block; t < k; ++t)
            if (tokens[order[t]].q > 0) block_of[order[t]] = static_cast<int>(sets.size());
        sets.push_back(std::move(set));
    }
    return sets;
}

}  // namespace multidraft::verify
