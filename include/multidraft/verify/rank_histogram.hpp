// How much of q lies where the target's ratio p/q is: one histogram of two rows, in integers, without a sort.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "multidraft/core/config.hpp"
#include "multidraft/core/exp_log.hpp"
#include "multidraft/core/fma.hpp"
#include "multidraft/core/group.hpp"
#include "multidraft/core/select.hpp"
#include "multidraft/core/span.hpp"
#include "multidraft/distribution/distribution.hpp"
#include "multidraft/distribution/select.hpp"

namespace multidraft::verify {

/// The knots of the ratio p/q between which tokens are interpolated: 16 an octave of p/q + 1/64, from 0 to 64.
///
/// A token between two knots belongs to both, to the upper one with a share that is linear in its ratio. So a function
/// that is p/q at the knots is p/q between them: only at its kinks does a histogram of knots lose anything, unlike one
/// of bins. Ratios above the last knot are there.
struct ratio_knots {
    static constexpr int bits = 4;
    static constexpr int octaves = 12;
    static constexpr index_t count = (index_t(octaves) << bits) + 1;

    /// The knot below a ratio, and the share of the knot above it.
    struct place {
        index_t knot;
        float share;
    };

    /// Where a ratio lies. The logarithm is read off the float; no call. NaN lies at the end.
    [[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE static place of(float ratio) noexcept {
        std::int32_t at = multidraft::detail::bits_of(ratio + offset) - lowest;
        at = multidraft::detail::select(at < 0, 0, at);
        at = multidraft::detail::select(at > highest, highest, at);
        return {at >> shift, static_cast<float>(at & ((1 << shift) - 1)) * (1.0F / static_cast<float>(1 << shift))};
    }

    /// The ratio of a knot.
    [[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE static double ratio(index_t knot) noexcept {
        return static_cast<double>(multidraft::detail::float_of(lowest + (knot << shift))) -
               static_cast<double>(offset);
    }

private:
    static constexpr float offset = 0x1p-6F;
    static constexpr int shift = 23 - bits;
    static constexpr std::int32_t lowest = (127 - 6) << 23;
    static constexpr std::int32_t highest = octaves << 23;
};

/// Where a token lies between the knots: a function of the token's p and q alone, the same in the histogram, in the
/// ranks and in the law of the candidate, which is what makes that law exact.
template <distribution P, distribution Q>
struct ratio_of {
    using real = probability_of<P>;
    P p;
    Q q;
    real left;       ///< about the mass that q has outside the certain tokens: the ratio is p / (q / left)
    real scale = 1;  ///< 1 / left: what is counted is q / left, however little is left

    /// Tokens without q lie anywhere: they have no mass to be counted.
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD ratio_knots::place operator()(index_t i) const {
        real const ratio = product(static_cast<real>(p(i)), left) / static_cast<real>(q(i));
        return ratio_knots::of(static_cast<float>(ratio));
    }
};
template <class P, class Q, class Real>
ratio_of(P, Q, Real) -> ratio_of<P, Q>;

namespace detail {

template <class Real>
using bits_of_real = std::conditional_t<sizeof(Real) == 4, std::int32_t, std::int64_t>;

/// Whether a number that is not negative lies below another, by their bits: no branch. NaN is above all.
template <class Real>
[[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE bool is_below(Real x, Real limit) noexcept {
    return __builtin_bit_cast(bits_of_real<Real>, x) < __builtin_bit_cast(bits_of_real<Real>, limit);
}

/// condition ? a : b without a branch.
template <class Real>
[[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE Real choose(bool condition, Real a, Real b) noexcept {
    using bits = bits_of_real<Real>;
    return __builtin_bit_cast(
        Real, multidraft::detail::select(condition, __builtin_bit_cast(bits, a), __builtin_bit_cast(bits, b)));
}

/// Below this a token is counted apart, in smaller units.
template <class Real>
inline constexpr Real small_mass = Real(0x1p-14);

/// The counter of a token: its knot or the one above, small tokens apart.
template <bool Upper, distribution P, distribution Q>
struct counter_of {
    ratio_of<P, Q> where;

    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD index_t operator()(index_t i) const {
        using real = probability_of<P>;
        bool const small = is_below(product(static_cast<real>(where.q(i)), where.scale), small_mass<real>);
        return where(i).knot + (Upper ? 1 : 0) + multidraft::detail::select(small, ratio_knots::count, 0);
    }
};

/// The part of q(i) / left that the knot below it has, or the one above, as an integer.
///
/// Tokens below 2^-14 are counted in units of 2^-44, the others in units of 2^-30: rounding is then relative to a
/// token's own mass, or below the rounding of a row of floats. A row of doubles takes a second word, of 2^-30 units
/// each.
template <bool Upper, int Word, distribution P, distribution Q>
struct mass_at_knot {
    ratio_of<P, Q> where;

    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD std::int32_t operator()(index_t i) const {
        using real = probability_of<P>;
        float const above = where(i).share;
        real const qi = product(static_cast<real>(where.q(i)), where.scale);
        real const share = static_cast<real>(Upper ? above : 1.0F - above);
        real const unit = choose(is_below(qi, small_mass<real>), real(0x1p44), real(0x1p30));
        real const amount = product(product(qi, share), unit);
        // NaN counts as 0: it is found where a token is drawn. So may a certain token, whose q / left has no bound.
        real const valid = choose(is_below(amount, real(0x7fffff00)), amount, real(0));
        if constexpr (sizeof(real) == 4) {
            return static_cast<std::int32_t>(valid + real(0.5));
        } else {
            auto const whole = static_cast<std::int32_t>(valid);
            if constexpr (Word == 0) return whole;
            return static_cast<std::int32_t>(product(valid - static_cast<real>(whole), real(0x1p30)));
        }
    }
};

/// One count of `rank_histogram`, added to `mass`; returns what was added.
template <bool Shared, bool Upper, int Word, group G, distribution P, distribution Q>
MULTIDRAFT_HD double count_at_knots(G const& g, ratio_of<P, Q> const& where, span<token_id const> certain,
                                    span<std::uint64_t> bins, double* mass) {
    constexpr index_t knots = ratio_knots::count;
    constexpr double unit = Word == 0 ? 0x1p-30 : 0x1p-60;
    counter_of<Upper, P, Q> const bin{where};
    mass_at_knot<Upper, Word, P, Q> const amount{where};
    g.count(where.q.size(), bin, amount, bins);
    double total = 0;
    for (index_t b = 0; b < knots; ++b) {
        auto large = static_cast<std::int64_t>(bins[static_cast<std::size_t>(b)]);
        auto little = static_cast<std::int64_t>(bins[static_cast<std::size_t>(b + knots)]);
        for (token_id const x : certain) {  // integers: what was counted is taken out again without a trace
            std::int64_t const here = amount(x);
            large -= bin(x) == b ? here : 0;
            little -= bin(x) == b + knots ? here : 0;
        }
        double const here = product(fused(static_cast<double>(little), 0x1p-14, static_cast<double>(large)), unit);
        total += here;
        if (!Shared || g.leader()) mass[b] += here;
    }
    g.barrier();
    return total;
}

}  // namespace detail

/// Puts the mass of q / left that belongs to each knot in `mass[0 .. ratio_knots::count)`, the certain tokens left out,
/// and returns the sum.
///
/// Two counts for rows of floats, four for doubles. Sums of integers are exact, so all groups get equal bits. `mass` is
/// every lane's own (`Shared` false) or memory that all lanes see, written by the leader.
template <bool Shared, group G, distribution P, distribution Q>
MULTIDRAFT_HD double rank_histogram(G const& g, ratio_of<P, Q> const& where, span<token_id const> certain,
                                    double* mass) {
    constexpr index_t knots = ratio_knots::count;
    auto counters = multidraft::detail::selection_counters<std::size_t(2 * knots)>(g);
    span<std::uint64_t> const bins(counters.data(), std::size_t(2 * knots));
    if (!Shared || g.leader())
        for (index_t b = 0; b < knots; ++b) mass[b] = 0;
    double total = detail::count_at_knots<Shared, false, 0>(g, where, certain, bins, mass);
    total += detail::count_at_knots<Shared, true, 0>(g, where, certain, bins, mass);
    if constexpr (sizeof(probability_of<P>) > 4) {
        total += detail::count_at_knots<Shared, false, 1>(g, where, certain, bins, mass);
        total += detail::count_at_knots<Shared, true, 1>(g, where, certain, bins, mass);
    }
    return total;
}

}  // namespace multidraft::verify
