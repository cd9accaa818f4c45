// Dividing [0, 1] among tokens so that the best of several ranks falls to each with a wanted probability.
#pragma once

#include <cstdint>

#include "multidraft/core/config.hpp"
#include "multidraft/core/fma.hpp"

namespace multidraft::verify {

/// G(t) = 1 - (1 - t)^j: the probability that the best of j uniform ranks lies below t.
struct best_of {
    index_t draws = 1;

    [[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE double operator()(double t) const noexcept {
        double const above = 1 - t;
        double power = above;
        for (index_t k = 1; k < draws; ++k) power = product(power, above);
        return 1 - power;
    }
};

/// A part of [0, 1].
struct rank_piece {
    double begin;
    double end;
};

/// Divides [0, 1] from the left, block after block: the left-curtain coupling.
///
/// A block takes a length and wants a mass of G, the concave curve of the best rank. It takes one interval of what is
/// left of [0, 1], glued together; the parts left of that interval stay behind as gaps. Whatever it gets, the blocks
/// divide [0, 1] as long as their lengths do: a wrong mass costs acceptance, never the law. N blocks take at most 3 N
/// pieces and leave at most N gaps.
template <class Curve>
class rank_curtain {
public:
    MULTIDRAFT_HD rank_curtain(Curve const& curve, rank_piece* pieces, rank_piece* gaps) noexcept
        : curve_(curve), pieces_(pieces), gaps_(gaps) {}

    [[nodiscard]] MULTIDRAFT_HD std::int32_t pieces() const noexcept { return count_; }

    /// Takes the next block; its pieces are appended, in increasing order. Returns its mass of G.
    MULTIDRAFT_HD double take(double length, double wanted) {
        double const here = curve_(hole_);
        double const room = 1 - hole_;
        double const slack = 1e-11 * wanted + 1e-15;
        bool const fits = length <= room + 1e-13;
        double const end = fits && length < room ? hole_ + length : 1.0;
        if (fits && curve_(end) - here >= wanted - slack) return right_of_hole(length, wanted, slack, end);
        std::int32_t const first = count_;
        double taken = 0;
        double mass = 0;
        while (open_ > 0 && taken < length) {
            rank_piece const gap = gaps_[open_ - 1];
            double const wide = gap.end - gap.begin;
            double const full = wide < length - taken ? wide : length - taken;
            double const top = curve_(gap.end);
            auto const got = [&](double t) {
                double const rest = hole_ + (length - taken - t);
                return mass + (top - curve_(gap.end - t)) + (curve_(rest < 1 ? rest : 1.0) - here);
            };
            double const least = length - taken - room;  // what does not fit right of the hole
            double const whole = got(full);
            if (full >= wide && (whole < wanted || least >= wide)) {
                --open_;
                pieces_[count_++] = gap;
                mass += top - curve_(gap.begin);
                taken += wide;
                continue;
            }
            double t = full;
            if (whole > wanted + slack) {
                double const low = least > 0 ? (least < full ? least : full) : 0.0;
                t = solve([&](double s) { return wanted - got(s); }, low, full, slack);
            }
            if (t >= wide)
                --open_;
            else
                gaps_[open_ - 1].end = gap.end - t;
            if (t > 0) {
                pieces_[count_++] = {gap.end - t, gap.end};
                taken += t;
            }
            break;
        }
        // The gaps were taken from the right.
        for (std::int32_t a = first, b = count_ - 1; a < b; ++a, --b) {
            rank_piece const held = pieces_[a];
            pieces_[a] = pieces_[b];
            pieces_[b] = held;
        }
        if (length - taken > 0 && hole_ < 1) {
            double const next = hole_ + (length - taken);
            pieces_[count_++] = {hole_, next < 1 ? next : 1.0};
            hole_ = next < 1 ? next : 1.0;
        }
        return mass_from(first);
    }

private:
    MULTIDRAFT_HD double right_of_hole(double length, double wanted, double slack, double end) {
        double start = hole_;
        if (end < 1 && curve_(end) - curve_(hole_) > wanted + slack)
            start = solve(
                [&](double t) {
                    double const next = t + length;
                    return curve_(next < 1 ? next : 1.0) - curve_(t) - wanted;
                },
                hole_, 1 - length, slack);
        if (start > hole_) gaps_[open_++] = {hole_, start};
        double const next = start + length;
        hole_ = next < 1 ? next : 1.0;
        pieces_[count_++] = {start, hole_};
        return mass_from(count_ - 1);
    }

    [[nodiscard]] MULTIDRAFT_HD double mass_from(std::int32_t first) const {
        double mass = 0;
        for (std::int32_t k = first; k < count_; ++k) mass += curve_(pieces_[k].end) - curve_(pieces_[k].begin);
        return mass;
    }

    /// Where a decreasing function is 0, within `slack` of it: regula falsi, with a bisection every third time.
    template <class F>
    [[nodiscard]] MULTIDRAFT_HD static double solve(F const& f, double low, double high, double slack) {
        double f_low = f(low);
        double f_high = f(high);
        if (!(f_low > 0)) return low;
        if (!(f_high < 0)) return high;
        for (int k = 0; k < 80; ++k) {
            double t = low + product(high - low, 0.5);
            if (k % 3 != 2) t = low + product(high - low, f_low / (f_low - f_high));
            if (!(t > low) || !(t < high)) break;
            double const value = f(t);
            if (value <= slack && value >= -slack) return t;
            if (value > 0) {
                low = t;
                f_low = value;
            } else {
                high = t;
                f_high = value;
            }
        }
        return f_low < -f_high ? low : high;
    }

    Curve const& curve_;
    rank_piece* pieces_;
    rank_piece* gaps_;
    std::int32_t count_ = 0;
    std::int32_t open_ = 0;
    double hole_ = 0;
};

}  // namespace multidraft::verify
