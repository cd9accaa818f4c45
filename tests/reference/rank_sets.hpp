// The sets of ranks in [0, 1] of each token, such that the token with the best rank has a given law.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/verify/detail/decreasing_root.hpp"

namespace MULTIDRAFT_NAMESPACE::testing::reference {

// On the host, in double: the exact form, by sorting.

/// A token, or several pooled tokens: its part of the target and of the law of one draw.
struct ranked_token {
    double p = 0;
    double q = 0;
    index_t element = 0;  ///< whose it is
    double ratio = 0;     ///< p / q, set by `sort_by_ratio`
};

/// Sorts by p / q, smallest first; tokens without q come last. O(V log V), the one sort of the exact form.
inline void sort_by_ratio(std::vector<ranked_token>& tokens) {
    for (ranked_token& t : tokens) t.ratio = t.q > 0 ? t.p / t.q : std::numeric_limits<double>::infinity();
    std::sort(tokens.begin(), tokens.end(), [](ranked_token const& a, ranked_token const& b) {
        return a.ratio < b.ratio || (a.ratio == b.ratio && a.element < b.element);
    });
}

/// The law m of the candidate with the highest acceptance rate, in the tokens' order, among the laws that the best of
/// the draws can have.
///
/// `tokens` are sorted by ratio. `best(t)` is G: the probability that the best rank is below t, concave, G(0) = 0,
/// G(1) = 1; for j independent draws 1 - (1 - t)^j. `base` is the target's mass on the certain tokens, p that on the
/// others (the rest of the sum), q their law, with sum 1. Then sum min(p, m) + base is alpha*, for every concave G (the
/// marginal of ranked verification: H, the minimising prefix of alpha*, is lifted to G's mass, the rest capped). m / q
/// is nondecreasing along the order. O(V).
template <class Best>
[[nodiscard]] std::vector<double> ranked_marginal(span<ranked_token const> tokens, Best const& best, double base) {
    std::size_t const n = tokens.size();
    // The prefix H with the least base + p(H) - Q(H); the empty one has 0.
    std::size_t inside = 0;
    double least = 0;
    double mass_inside = 0;  // Q(H)
    {
        double sum_p = 0;
        double sum_q = 0;
        for (std::size_t k = 0; k < n; ++k) {
            sum_p += tokens[k].p;
            sum_q = std::min(sum_q + tokens[k].q, 1.0);
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
    // m = max(p, c q) on [first, last), with a given sum.
    auto const lift = [&](std::size_t first, std::size_t last, double sum) {
        double left = 0;
        for (std::size_t k = first; k < last; ++k) left += tokens[k].p;
        double c = 0;
        if (left < sum) {
            double lifted = 0;
            for (std::size_t k = first; k < last; ++k) {
                left -= tokens[k].p;
                lifted += tokens[k].q;
                c = lifted > 0 ? (sum - std::max(left, 0.0)) / lifted : 0;
                if (k + 1 == last || c <= tokens[k + 1].ratio) break;
            }
        }
        for (std::size_t k = first; k < last; ++k) m[k] = std::max(tokens[k].p, c * tokens[k].q);
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
        all += tokens[k].p;
        left_q += tokens[k].q;
        if (tokens[k].q > 0) reachable += tokens[k].p;
    }
    if (reachable <= total + 1e-15) {
        for (std::size_t k = inside; k < n; ++k) m[k] = all > 0 ? tokens[k].p * (total / all) : total * tokens[k].q;
        return m;
    }
    double before = 0;  // of the p below the cap
    double c = 0;
    for (std::size_t k = inside; k < n; ++k) {
        c = left_q > 0 ? (total - before) / left_q : tokens[k].ratio;
        if (c <= tokens[k].ratio) break;
        before += tokens[k].p;
        left_q = std::max(left_q - tokens[k].q, 0.0);
    }
    for (std::size_t k = inside; k < n; ++k) m[k] = std::min(tokens[k].p, c * tokens[k].q);
    return m;
}

/// A part of [0, 1], and G at its ends.
struct rank_interval {
    double begin = 0;
    double end = 0;
    double below_begin = 0;  ///< G(begin)
    double below_end = 0;    ///< G(end)

    /// The part of [0, 1] that it covers.
    [[nodiscard]] double length() const noexcept { return end - begin; }
    /// Its mass of G.
    [[nodiscard]] double mass() const noexcept { return below_end - below_begin; }
};

/// The set of ranks of one block of tokens. A drawn token's rank is uniform on its block's set.
struct rank_set {
    double length = 0;
    double mass = 0;  ///< of G: the probability that the best rank lies here
    std::size_t first = 0;
    std::size_t count = 0;
};

/// Sets of ranks with the lengths q and the G-masses m: the left-curtain coupling [LeftCurtain]. They divide [0, 1].
///
/// In order of m/q, largest first, each token takes an interval of the remaining part of [0, 1], with the parts already
/// taken contracted; tokens of equal m/q form a block and share theirs. The masses are m up to rounding. They are
/// recomputed from G and so give the exact law.
class rank_sets {
public:
    /// `tokens` sorted by ratio with elements below `elements`, `m` from `ranked_marginal`. O(V), and a dozen
    /// evaluations of G a block.
    template <class Best>
    void divide(span<ranked_token const> tokens, std::vector<double> const& m, Best const& best, std::size_t elements) {
        set_of_.assign(elements, -1);
        sets_.clear();
        intervals_.clear();
        gaps_.clear();
        cursor_ = {0, best(0.0)};
        for (std::size_t end = tokens.size(); end > 0;) {
            auto const density = [&](std::size_t k) { return m[k] / std::max(tokens[k].q, 1e-300); };
            double const shared = density(end - 1);
            double width = 0;
            double want = 0;
            std::size_t begin = end;
            do {
                --begin;
                width += tokens[begin].q;
                want += m[begin];
            } while (begin > 0 && std::abs(density(begin - 1) - shared) < 1e-9 * std::max(1.0, shared));
            if (width > 0) {
                for (std::size_t k = begin; k < end; ++k)
                    if (tokens[k].q > 0)
                        set_of_[static_cast<std::size_t>(tokens[k].element)] = static_cast<int>(sets_.size());
                take(width, want, best);
            }
            end = begin;
        }
    }

    /// The set of an element, or -1 if it is never drawn.
    [[nodiscard]] int set_of(index_t element) const { return set_of_[static_cast<std::size_t>(element)]; }
    /// A set, by its number.
    [[nodiscard]] rank_set const& operator[](int set) const { return sets_[static_cast<std::size_t>(set)]; }
    /// A set's intervals, in increasing order.
    [[nodiscard]] span<rank_interval const> intervals(int set) const {
        rank_set const& s = sets_[static_cast<std::size_t>(set)];
        return span<rank_interval const>(intervals_).subspan(s.first, s.count);
    }

private:
    /// A point of [0, 1], and G there.
    struct point {
        double at;
        double below;
    };
    struct gap {
        point begin;
        point end;
    };
    static constexpr double slack = 1e-13;

    /// The next block: an interval right of the cursor, or the rest there and a part of the gaps on its left.
    template <class Best>
    void take(double width, double want, Best const& best) {
        rank_set set;
        set.length = width;
        set.first = intervals_.size();
        auto const right_end = [](double t) { return std::min(t, 1.0); };
        auto const at = [&](double t) { return point{right_end(t), best(right_end(t))}; };
        point end = at(cursor_.at + width);
        double const after = end.below - cursor_.below;
        if (after >= want - slack) {
            point start = cursor_;
            if (end.at < 1 && after - want >= slack) {
                auto const excess = [&](double t) { return best(right_end(t + width)) - best(t) - want; };
                double const last = 1.0 - width;
                start =
                    at(verify::detail::decreasing_root(excess, cursor_.at, after - want, last, excess(last), 1e-15));
                end = at(start.at + width);
            }
            if (start.at > cursor_.at) gaps_.push_back({cursor_, start});
            cursor_ = end;
            intervals_.push_back({start.at, end.at, start.below, end.below});
        } else {
            double taken = 0;
            double mass = 0;
            while (!gaps_.empty() && taken < width) {
                point const x = gaps_.back().begin;
                point const y = gaps_.back().end;
                double const full = std::min(y.at - x.at, width - taken);
                auto const got = [&](double t) {
                    return mass + y.below - best(y.at - t) + best(right_end(cursor_.at + width - taken - t)) -
                           cursor_.below;
                };
                double const all_of_it = got(full);
                if (full == y.at - x.at && all_of_it < want) {
                    gaps_.pop_back();
                    intervals_.push_back({x.at, y.at, x.below, y.below});
                    mass += y.below - x.below;
                    taken += full;
                    continue;
                }
                double const t = all_of_it <= want ? full
                                                   : verify::detail::decreasing_root(
                                                         [&](double s) { return want - got(s); }, 0.0, full, 1e-15);
                point const cut = at(y.at - t);
                if (t >= y.at - x.at)
                    gaps_.pop_back();
                else
                    gaps_.back().end = cut;
                if (t > 0) {
                    intervals_.push_back({cut.at, y.at, cut.below, y.below});
                    taken += t;
                }
                break;
            }
            // Gaps were taken from the right.
            std::reverse(intervals_.begin() + static_cast<std::ptrdiff_t>(set.first), intervals_.end());
            if (width - taken > 0) {
                point const next = at(cursor_.at + width - taken);
                intervals_.push_back({cursor_.at, next.at, cursor_.below, next.below});
                cursor_ = next;
            }
        }
        set.count = intervals_.size() - set.first;
        for (std::size_t k = set.first; k < intervals_.size(); ++k) set.mass += intervals_[k].mass();
        sets_.push_back(set);
    }

    std::vector<int> set_of_;
    std::vector<rank_set> sets_;
    std::vector<rank_interval> intervals_;
    std::vector<gap> gaps_;  // the gaps left of the cursor, in increasing order
    point cursor_{0, 0};     // the end of what is taken on the right
};

}  // namespace MULTIDRAFT_NAMESPACE::testing::reference
