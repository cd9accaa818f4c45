// Dividing [0, 1] among tokens so that the best of several ranks falls to each with a wanted probability.
#pragma once

#include <cstdint>

#include "multidraft/core/config.hpp"
#include "multidraft/core/fma.hpp"
#include "multidraft/verify/decreasing_root.hpp"

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
        : curve_(curve), pieces_(pieces), gaps_(gaps), at_hole_(curve(0)) {}

    [[nodiscard]] MULTIDRAFT_HD std::int32_t pieces() const noexcept { return count_; }

    /// Takes the next block; its pieces are appended, in increasing order. Returns its mass of G.
    ///
    /// `wanted` is met to 1e-7 of it, which costs less than that of acceptance: the mass returned is exact, and G knows
    /// its own values no better than to 1e-12 or so where it is a chain of tilts.
    MULTIDRAFT_HD double take(double length, double wanted) {
        double const room = 1 - hole_;
        double const slack = 1e-7 * wanted + 1e-10;
        bool const fits = length <= room + 1e-13;
        double const end = length < room ? hole_ + length : 1.0;
        double const lacking_there = wanted - (curve_(end) - at_hole_);
        if (fits && lacking_there <= slack) return right_of_hole(length, wanted, slack, end, -lacking_there);
        std::int32_t const first = count_;
        double taken = 0;
        double mass = 0;
        while (open_ > 0 && taken < length) {
            rank_piece const gap = gaps_[open_ - 1];
            double const wide = gap.end - gap.begin;
            double const full = wide < length - taken ? wide : length - taken;
            double const top = curve_(gap.end);
            auto const lacking = [&](double t) {
                double const rest = hole_ + (length - taken - t);
                return wanted - (mass + (top - curve_(gap.end - t)) + (curve_(rest < 1 ? rest : 1.0) - at_hole_));
            };
            double const least = length - taken - room;  // what does not fit right of the hole
            double const whole = lacking(full);
            if (full >= wide && (whole > 0 || least >= wide)) {
                --open_;
                pieces_[count_++] = gap;
                mass += top - curve_(gap.begin);
                taken += wide;
                continue;
            }
            double t = full;
            if (whole < -slack) {
                double const low = least > 0 ? (least < full ? least : full) : 0.0;
                t = decreasing_root(lacking, low, low == 0 && taken == 0 ? lacking_there : lacking(low), full, whole,
                                    slack);
            }
            if (t >= wide)
                --open_;
            else
                gaps_[open_ - 1].end = gap.end - t;
            if (t > 0) {
                pieces_[count_++] = {gap.end - t, gap.end};
                mass += top - curve_(gap.end - t);
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
        if (length - taken > 0 && hole_ < 1) mass += take_from(hole_, at_hole_, length - taken);
        return mass;
    }

private:
    /// `over` is what the curve has more than wanted from the hole to `end`.
    MULTIDRAFT_HD double right_of_hole(double length, double wanted, double slack, double end, double over) {
        double start = hole_;
        if (end < 1 && over > slack) {
            auto const more = [&](double t) {
                double const next = t + length;
                return curve_(next < 1 ? next : 1.0) - curve_(t) - wanted;
            };
            start = decreasing_root(more, hole_, over, 1 - length, more(1 - length), slack);
        }
        if (!(start > hole_)) return take_from(hole_, at_hole_, length);
        gaps_[open_++] = {hole_, start};
        return take_from(start, curve_(start), length);
    }

    /// Appends the piece from `start` on, behind which the hole is then; `here` is the curve there. Returns its mass.
    MULTIDRAFT_HD double take_from(double start, double here, double length) {
        double const next = start + length;
        hole_ = next < 1 ? next : 1.0;
        pieces_[count_++] = {start, hole_};
        at_hole_ = curve_(hole_);
        return at_hole_ - here;
    }

    Curve const& curve_;
    rank_piece* pieces_;
    rank_piece* gaps_;
    std::int32_t count_ = 0;
    std::int32_t open_ = 0;
    double hole_ = 0;
    double at_hole_;  ///< the curve there
};

}  // namespace multidraft::verify
