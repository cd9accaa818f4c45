// The left-curtain coupling [LeftCurtain]: divides [0, 1] among tokens so that the best of several uniform ranks falls
// to each with a given probability.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "multidraft/base/config.hpp"
#include "multidraft/base/fma.hpp"
#include "multidraft/verify/detail/decreasing_root.hpp"

namespace MULTIDRAFT_NAMESPACE::verify::detail {

/// G(t) = 1 - (1 - t)^j: the probability that the best of j uniform ranks lies below t.
struct best_rank_cdf {
    index_t draws = 1;

    /// Its value at t in [0, 1]; O(draws).
    [[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE double operator()(double t) const noexcept {
        double const above = 1 - t;
        double power = above;
        for (index_t k = 1; k < draws; ++k) power = fp::mul(power, above);
        return 1 - power;
    }
};

/// A part of [0, 1].
struct rank_piece {
    double begin;
    double end;
};

/// A part of [0, 1] that no block has taken yet, and the values of the curve at its ends.
struct rank_gap {
    rank_piece part;
    double at_begin;
    double at_end;
};

/// Divides [0, 1] from the left, block after block: the left-curtain coupling [LeftCurtain].
///
/// A block has a given length and a wanted mass of G, the concave curve of the best rank. It takes one interval of the
/// remaining part of [0, 1], with the parts already taken contracted; the parts left of that interval remain as gaps.
/// The blocks divide [0, 1] whenever their lengths sum to 1, whatever masses they get: an inexact mass lowers the
/// acceptance rate but not the law. N blocks take at most 3 N pieces and leave at most N gaps.
///
/// G is a composition of conditional distribution functions and dominates the cost, so known values are not evaluated
/// again.
template <class Curve>
class left_curtain_coupling {
public:
    /// `pieces` and `gaps` have space for 3 N and N elements, for N blocks.
    MULTIDRAFT_HD left_curtain_coupling(Curve const& curve, rank_piece* pieces, rank_gap* gaps) noexcept
        : curve_(curve), pieces_(pieces), gaps_(gaps), at_cursor_(curve(0)) {}

    /// How many pieces the blocks have so far.
    [[nodiscard]] MULTIDRAFT_HD std::int32_t pieces() const noexcept { return count_; }

    /// Takes the next block; its pieces are appended, in increasing order. Returns its mass of G.
    ///
    /// `wanted` is met within 1e-5 of its value plus 1e-6, and the acceptance rate changes by no more than that. The
    /// mass returned is exact.
    MULTIDRAFT_HD double take(double length, double wanted) {
        double const room = 1 - cursor_;
        double const slack = fp::fma(1e-5, wanted, 1e-6);
        point const end = at(cursor_ + length);
        double lacking = wanted - (end.below - at_cursor_);
        if (length <= room + 1e-13 && lacking <= slack) return take_right(length, wanted, slack, end, -lacking);
        std::int32_t const first = count_;
        double mass = 0;
        point last = end;  // the end of the piece right of the cursor
        while (open_ > 0 && length > 0) {
            rank_gap& gap = gaps_[open_ - 1];
            double const wide = gap.part.end - gap.part.begin;
            bool const fits = length < wide;
            double const full = fits ? length : wide;
            split whole{full, fits ? at(gap.part.end - full) : point{gap.part.begin, gap.at_begin},
                        fits ? point{cursor_, at_cursor_} : at(cursor_ + (length - full))};
            auto const lacking_at = [&](split const& s) {
                return wanted - (mass + (gap.at_end - s.cut.below) + (s.last.below - at_cursor_));
            };
            double const lacking_whole = lacking_at(whole);
            double const least = length - (1 - cursor_);  // the part that does not fit right of the cursor
            if (!fits && (lacking_whole > 0 || least >= wide)) {
                pieces_[count_++] = gap.part;
                mass += gap.at_end - gap.at_begin;
                length -= wide;
                --open_;
                last = whole.last;
                lacking = lacking_whole;
                continue;
            }
            split found = whole;
            if (lacking_whole < -slack) {
                auto const divide = [&](double t) {
                    return split{t, at(gap.part.end - t), at(cursor_ + (length - t))};
                };
                double const low = least > 0 ? (least < full ? least : full) : 0.0;
                found = low > 0 ? divide(low) : split{0, {gap.part.end, gap.at_end}, last};
                double const lacking_low = low > 0 ? lacking_at(found) : lacking;
                double const t = decreasing_root(
                    [&](double s) {
                        found = divide(s);
                        return lacking_at(found);
                    },
                    low, lacking_low, full, lacking_whole, slack);
                if (t != found.t) found = t == full ? whole : divide(t);
            }
            if (found.t > 0) {
                pieces_[count_++] = {found.cut.at, gap.part.end};
                mass += gap.at_end - found.cut.below;
            }
            if (!fits && found.t >= wide) {
                --open_;
            } else {
                gap.part.end = found.cut.at;
                gap.at_end = found.cut.below;
            }
            length -= found.t;
            last = found.last;
            break;
        }
        // The gaps were taken from the right.
        for (std::int32_t a = first, b = count_ - 1; a < b; ++a, --b) {
            rank_piece const held = pieces_[a];
            pieces_[a] = pieces_[b];
            pieces_[b] = held;
        }
        if (length > 0 && cursor_ < 1) mass += take_piece({cursor_, at_cursor_}, last);
        return mass;
    }

private:
    /// A point of [0, 1] and the curve there.
    struct point {
        double at;
        double below;
    };

    /// A block that takes a length t from the end of a gap, down to `cut`, and the rest right of the cursor, up to
    /// `last`.
    struct split {
        double t;
        point cut;
        point last;
    };

    [[nodiscard]] MULTIDRAFT_HD point at(double t) const {
        double const inside = t < 1 ? t : 1.0;
        return {inside, curve_(inside)};
    }

    /// `over` is the excess of the curve's mass from the cursor to `end` over the wanted one. The block may get
    /// slightly too much but never too little: where G is flat a small error of mass can be a large error of length.
    /// With the cursor too far right, later blocks would find no mass right of it.
    MULTIDRAFT_HD double take_right(double length, double wanted, double slack, point end, double over) {
        point start{cursor_, at_cursor_};
        if (end.at < 1 && over > slack) {
            double const aim = wanted + slack / 2;
            auto const more = [&](double t) {
                start = at(t);
                end = at(t + length);
                return end.below - start.below - aim;
            };
            double const last = 1 - length;
            double const t = decreasing_root(more, cursor_, over - slack / 2, last, more(last), slack / 2);
            if (t != start.at) static_cast<void>(more(t));
        }
        if (start.at > cursor_) gaps_[open_++] = {{cursor_, start.at}, at_cursor_, start.below};
        return take_piece(start, end);
    }

    /// Appends a piece and moves the cursor to its end. Returns its mass.
    MULTIDRAFT_HD double take_piece(point start, point end) {
        pieces_[count_++] = {start.at, end.at};
        cursor_ = end.at;
        at_cursor_ = end.below;
        return end.below - start.below;
    }

    Curve const& curve_;
    rank_piece* pieces_;
    rank_gap* gaps_;
    std::int32_t count_ = 0;
    std::int32_t open_ = 0;
    double cursor_ = 0;
    double at_cursor_;  ///< the curve there
};

}  // namespace MULTIDRAFT_NAMESPACE::verify::detail
