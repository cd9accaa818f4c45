// The mass of q as a function of the ratio p/q: one histogram of two rows, in integers, without sorting.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "multidraft/base/blend.hpp"
#include "multidraft/base/config.hpp"
#include "multidraft/base/exp_log.hpp"
#include "multidraft/base/fma.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/rows/truncation.hpp"

namespace MULTIDRAFT_NAMESPACE::verify::detail {

template <class Real>
using bits_of_real = std::conditional_t<sizeof(Real) == 4, std::uint32_t, std::uint64_t>;

/// Whether a nonnegative number is less than another, by their bits: no branch. NaN of either sign is above all
/// numbers.
template <class Real>
[[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE bool is_below(Real x, Real limit) noexcept {
    return __builtin_bit_cast(bits_of_real<Real>, x) < __builtin_bit_cast(bits_of_real<Real>, limit);
}

/// condition ? a : b without a branch.
template <class Real>
[[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE Real blend(bool condition, Real a, Real b) noexcept {
    using bits = bits_of_real<Real>;
    return __builtin_bit_cast(
        Real, multidraft::detail::blend(condition, __builtin_bit_cast(bits, a), __builtin_bit_cast(bits, b)));
}

/// The grid points of the ratio p/q between which tokens are interpolated: 16 per octave of p/q + 1/4, from 0 to 64.
///
/// A token between two grid points belongs to both, to the upper one with a share that is linear in its ratio. So a
/// function that is p/q at the grid points is p/q between them: unlike a histogram of bins, one of grid points is exact
/// except at kinks. The loss at a kink is q times the distance of the grid points. Near 0 they may be as far apart as
/// near 1/4, and above that increasingly far, since p = q p/q. Ratios above the last grid point count as that point.
struct ratio_grid {
    static constexpr int bits = 4;
    static constexpr int octaves = 8;
    static constexpr index_t count = (index_t(octaves) << bits) + 1;

    /// The grid point below a ratio, and the share that belongs to the next one.
    struct place {
        index_t grid_point;
        float share;
    };

    /// The place of a ratio. The logarithm is read from the float's bits, without a call. NaN is at the end.
    [[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE static place of(float ratio) noexcept {
        auto const above = static_cast<std::uint32_t>(multidraft::detail::bits_of(ratio + offset)) - lowest;
        auto const at = static_cast<std::int32_t>(above < highest ? above : highest);
        return {at >> shift, static_cast<float>(at & ((1 << shift) - 1)) * (1.0F / static_cast<float>(1 << shift))};
    }

    /// The ratio of a grid point.
    [[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE static double ratio(index_t grid_point) noexcept {
        return static_cast<double>(
                   multidraft::detail::float_of(static_cast<std::int32_t>(lowest) + (grid_point << shift))) -
               static_cast<double>(offset);
    }

private:
    static constexpr float offset = 0x1p-2F;
    static constexpr int shift = 23 - bits;
    static constexpr std::uint32_t lowest = (127 - 2) << 23;
    static constexpr std::uint32_t highest = octaves << 23;
};

/// The place of a token between the grid points: a function of the token's p and q alone. The histogram, the ranks and
/// the law of the candidate use the same function, which makes that law exact.
///
/// Tokens of little q may be pooled, all at ratio 1, so that they need not be counted one by one (`pool_small_tokens`).
template <distribution P, distribution Q>
struct ratio_of {
    using real = probability_of<P>;
    P p;
    Q q;
    real left;        ///< approximately the mass of q outside the certain tokens: the ratio is p / (q / left)
    real pooled = 0;  ///< tokens whose q lies below are pooled
    real scale = 1;   ///< 1 / left: counts are of q / left, however little is left

    /// Whether q is so small at token i that it is pooled.
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD bool is_pooled(index_t i) const {
        return is_below(static_cast<real>(q(i)), pooled);
    }

    /// p / (q / left). Arbitrary for tokens without q, which have no mass to count.
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD float ratio(index_t i) const {
        return static_cast<float>(fp::div(fp::mul(static_cast<real>(p(i)), left), static_cast<real>(q(i))));
    }

    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD ratio_grid::place operator()(index_t i) const {
        return ratio_grid::of(blend(is_pooled(i), 1.0F, ratio(i)));
    }
    /// The same with another form of q.
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD ratio_of with(Q const& row) const {
        return {p, row, left, pooled, scale};
    }
};
template <class P, class Q, class Real>
MULTIDRAFT_GUIDE ratio_of(P, Q, Real)->ratio_of<P, Q>;

/// Below this a token is counted separately, in smaller units.
template <class Real>
inline constexpr Real small_mass = Real(0x1p-14);

/// The bin of a token that is not pooled: the grid point below it, with separate bins for small tokens. And the parts
/// of q(i) / left that belong to this grid point and to the next one, as integers.
///
/// Tokens below 2^-14 are counted in units of 2^-44, the others in units of 2^-30: rounding is then relative to a
/// token's own mass, or below the rounding of a row of floats. A row of doubles takes a second word, of 2^-30 units
/// each.
template <int Word, distribution P, distribution Q>
struct mass_at_grid_points {
    ratio_of<P, Q> where;

    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD binned_pair operator()(index_t i) const {
        using real = probability_of<P>;
        auto const at = ratio_grid::of(where.ratio(i));
        real const qi = fp::mul(static_cast<real>(where.q(i)), where.scale);
        bool const is_small = is_below(qi, small_mass<real>);
        // NaN counts as 0: it is detected where a token is drawn. So does a certain token whose q / left is out of
        // range.
        real const valid = blend(is_below(qi, real(1.99)), qi, real(0));
        real const amount = fp::mul(valid, blend(is_small, real(0x1p44), real(0x1p30)));
        index_t const bin = at.grid_point + multidraft::detail::blend(is_small, ratio_grid::count, 0);
        std::int32_t const above = integer(fp::mul(amount, static_cast<real>(at.share)));
        if constexpr (sizeof(real) == 4)
            return {bin, integer(amount) - above, above};
        else
            return {bin, integer(fp::mul(amount, static_cast<real>(1.0F - at.share))), above};
    }

private:
    template <class Real>
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD static std::int32_t integer(Real amount) {
        if constexpr (sizeof(Real) == 4) {
            return static_cast<std::int32_t>(amount + Real(0.5));
        } else {
            auto const whole = static_cast<std::int32_t>(amount);
            if constexpr (Word == 0) return whole;
            return static_cast<std::int32_t>(fp::mul(amount - static_cast<Real>(whole), Real(0x1p30)));
        }
    }
};

/// The same where most tokens are pooled; testing which are not (`may_be_nonzero`) is cheaper.
template <int Word, distribution P, distribution Q>
struct mass_of_few : mass_at_grid_points<Word, P, Q> {
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD bool may_be_nonzero(index_t i) const {
        return !this->where.is_pooled(i);
    }
    [[nodiscard]] MULTIDRAFT_HD bool is_dense() const { return false; }

    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD binned_pair operator()(index_t i) const {
        binned_pair result = mass_at_grid_points<Word, P, Q>::operator()(i);
        result.bin = multidraft::detail::blend(this->where.is_pooled(i), none, result.bin);
        return result;
    }
};

/// Tokens of less q / left than this are pooled if all of them together have no more than `pooled_most` and they are
/// the majority: at most a quarter of a sample of the row may be others.
inline constexpr double pooled_below = 0x1p-25;
inline constexpr double pooled_most = 0x1p-13;
inline constexpr index_t pooled_sample = 1024;

/// An integer mass: that of large tokens in one unit, that of small ones in 2^-14 of it.
struct counted_mass {
    std::int64_t large;
    std::int64_t little;

    [[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE double value(double unit) const noexcept {
        return fp::mul(fp::fma(static_cast<double>(little), 0x1p-14, static_cast<double>(large)), unit);
    }
};

/// Removes the certain tokens from the mass of a grid point, or of all (`none`), exactly as they were counted.
template <class Count>
MULTIDRAFT_HD void take_out(span<token_id const> certain, Count const& counted, index_t grid_point,
                            counted_mass& mass) {
    for (token_id const x : certain) {
        binned_pair const of_x = counted(x);
        bool const large = of_x.bin < ratio_grid::count;
        index_t const below = large ? of_x.bin : of_x.bin - ratio_grid::count;
        std::int64_t here = 0;
        if (grid_point == none || grid_point == below) here += of_x.first;
        if (grid_point == none || grid_point == below + 1) here += of_x.second;
        (large ? mass.large : mass.little) -= here;
    }
}

/// `mass_at_grid_points` of the k-th candidate of q.
template <int Word, distribution P, distribution Q>
struct mass_of_candidates {
    ratio_of<P, Q> where;
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD binned_pair operator()(index_t k) const {
        return mass_at_grid_points<Word, P, Q>{where.with(where.q.only(k))}(where.q.candidates()[k]);
    }
};

/// One count of `ratio_histogram`, added to `mass`; returns what was added.
template <bool Shared, int Word, group G, distribution P, distribution Q>
MULTIDRAFT_HD double count_at_knots(G const& g, ratio_of<P, Q> const& where, span<token_id const> certain,
                                    span<std::uint64_t> bins, double* mass) {
    constexpr index_t grid_points = ratio_grid::count;
    constexpr double unit = Word == 0 ? 0x1p-30 : 0x1p-60;
    mass_at_grid_points<Word, P, Q> const counted{where};
    if constexpr (lists_candidates<Q>) {
        g.histogram_pairs(static_cast<index_t>(where.q.candidates().size()), mass_of_candidates<Word, P, Q>{where},
                          bins);
    } else if (MULTIDRAFT_ON_DEVICE || where.pooled > 0) {
        // A device always takes this branch, which avoids a second copy of the counting code.
        g.histogram_pairs(where.q.size(), mass_of_few<Word, P, Q>{counted}, bins);
    } else {
        g.histogram_pairs(where.q.size(), counted, bins);
    }
    std::uint32_t touched[grid_points / 32 + 1] = {};  // grid points with a certain token
    for (token_id const x : certain) {
        index_t const below = counted(x).bin % grid_points;
        touched[below / 32] |= 1U << (below % 32);
        touched[(below + 1) / 32] |= 1U << ((below + 1) % 32);
    }
    counted_mass all{0, 0};
    std::uint64_t above[2] = {0, 0};  // the mass carried over from the preceding grid point
    for (index_t k = 0; k < grid_points; ++k) {
        std::uint64_t const* const large = bins.data() + 2 * k;
        std::uint64_t const* const little = large + 2 * grid_points;
        counted_mass here{static_cast<std::int64_t>(large[0] + above[0]),
                          static_cast<std::int64_t>(little[0] + above[1])};
        above[0] = large[1];
        above[1] = little[1];
        all.large += here.large;
        all.little += here.little;
        if (Shared && !g.leader()) continue;
        if ((touched[k / 32] >> (k % 32) & 1U) != 0) take_out(certain, counted, k, here);
        mass[k] += here.value(unit);
    }
    take_out(certain, counted, none, all);
    g.barrier();
    return all.value(unit);
}

/// Whether a token has enough of q to be counted individually.
template <distribution Q, class Real>
struct is_counted {
    Q q;
    Real limit;
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD bool operator()(index_t i) const {
        return !is_below(static_cast<Real>(q(i)), limit);
    }
};

/// The q / left of a token that is not counted individually.
template <distribution Q, class Real>
struct pooled_part {
    Q q;
    Real limit;
    Real scale;
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD Real operator()(index_t i) const {
        auto const qi = static_cast<Real>(q(i));
        return fp::mul(blend(is_below(qi, limit), qi, Real(0)), scale);
    }
};

/// The q below which tokens may be pooled.
template <distribution P, distribution Q>
[[nodiscard]] MULTIDRAFT_HD auto pool_limit(ratio_of<P, Q> const& where) {
    return fp::mul(static_cast<probability_of<P>>(pooled_below), where.left);
}

/// How many entries of a sample from the middle of a row are counted individually.
template <group G, distribution Q, class Real>
[[nodiscard]] MULTIDRAFT_HD index_t counted_in_sample(G const& g, is_counted<Q, Real> const& counted, index_t size) {
    index_t const sample = size < pooled_sample ? size : pooled_sample;
    index_t const first = (size - sample) / 2;
    return g.count_part(size, first, sample, counted);
}

/// Pools the tokens of very little q where they are the majority and have little mass in total; returns their mass of q
/// / left.
///
/// Within the pool tokens keep their law under q. n draws hit the pool with probability n 2^-13 at most, and the loss
/// of acceptance is at most half of that. One pass over q at most. Rows truncated by top-k or top-p, and peaked rows,
/// have few other tokens, and then only those are counted individually. Nothing is pooled of rows that list their
/// candidates.
template <group G, distribution P, distribution Q>
[[nodiscard]] MULTIDRAFT_HD double pool_small_tokens(G const& g, ratio_of<P, Q>& where, span<token_id const> certain) {
    using real = probability_of<P>;
    if constexpr (lists_candidates<Q>) return 0;
    real const limit = pool_limit(where);
    for (token_id const x : certain)
        if (is_below(static_cast<real>(where.q(x)), limit)) return 0;
    index_t const size = where.q.size();
    index_t const sample = size < pooled_sample ? size : pooled_sample;
    if (counted_in_sample(g, is_counted<Q, real>{where.q, limit}, size) > sample / 4) return 0;
    real const mass = g.sum(size, pooled_part<Q, real>{where.q, limit, where.scale});
    if (!(mass <= static_cast<real>(pooled_most))) return 0;
    where.pooled = limit;
    return static_cast<double>(mass);
}

/// Puts the mass of q / left that belongs to each grid point in `mass[0 .. ratio_grid::count)`, the certain tokens left
/// out, and returns the sum. May pool tokens, which `where` then records.
///
/// One counting pass for rows of floats, two for doubles, over q's candidates alone if it lists them; one more pass
/// over q where many tokens have little of it. Sums of integers are exact, so all groups get equal bits. `mass` is
/// private to each lane (`Shared` false) or memory that all lanes see, written by the leader.
template <bool Shared, group G, distribution P, distribution Q>
MULTIDRAFT_HD double ratio_histogram(G const& g, ratio_of<P, Q>& where, span<token_id const> certain, double* mass) {
    constexpr index_t grid_points = ratio_grid::count;
    auto counters = g.template counters<std::size_t(4 * grid_points)>();
    span<std::uint64_t> const bins(counters.data(), std::size_t(4 * grid_points));
    double const pooled = pool_small_tokens(g, where, certain);
    if (!Shared || g.leader()) {
        for (index_t b = 0; b < grid_points; ++b) mass[b] = 0;
        mass[ratio_grid::of(1.0F).grid_point] = pooled;
    }
    double total = pooled + count_at_knots<Shared, 0>(g, where, certain, bins, mass);
    if constexpr (sizeof(probability_of<P>) > 4) total += count_at_knots<Shared, 1>(g, where, certain, bins, mass);
    return total;
}

}  // namespace MULTIDRAFT_NAMESPACE::verify::detail
