// Truncation thresholds without sorting: the k-th largest key, or the key at which the largest ones reach a mass.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/group/optional_members.hpp"
#include "multidraft/group/runs.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// Which entries of a row are kept: those above `value`, and those equal to it up to index `last`.
template <class Real>
struct truncation_threshold {
    Real value = minus_infinity<Real>;
    index_t last = largest_number<index_t>;

    /// Whether entry i, of value x, is kept.
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD bool keeps(Real x, index_t i) const noexcept {
        return (x > value) | ((x == value) & (i <= last));
    }
    /// Whether it keeps less than another threshold of the same row.
    [[nodiscard]] MULTIDRAFT_HD bool inside(truncation_threshold const& other) const noexcept {
        return value > other.value || (value == other.value && last < other.last);
    }
};

namespace detail {

template <class Real>
using key_bits = std::conditional_t<sizeof(Real) == 4, std::uint32_t, std::uint64_t>;

/// An integer with the order of the number; both zeros map to the same one.
template <class Real>
[[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD key_bits<Real> to_key(Real x) noexcept {
    using bits = key_bits<Real>;
    constexpr bits sign = bits(1) << (sizeof(bits) * 8 - 1);
    bits const b = __builtin_bit_cast(bits, x + Real(0));
    return b ^ ((bits(0) - (b >> (sizeof(bits) * 8 - 1))) | sign);  // no branch: reverses negative numbers
}

template <class Real>
[[nodiscard]] MULTIDRAFT_HD Real from_key(key_bits<Real> key) noexcept {
    using bits = key_bits<Real>;
    constexpr bits sign = bits(1) << (sizeof(bits) * 8 - 1);
    return __builtin_bit_cast(Real, (key & sign) != 0 ? key & ~sign : ~key);
}

/// The counters of a selection: the group's own if it has them (in shared memory), else an array.
template <std::size_t N, class G>
[[nodiscard]] MULTIDRAFT_HD auto selection_counters([[maybe_unused]] G const& g) {
    struct array {
        std::uint64_t count[N];
        MULTIDRAFT_HD array() noexcept {}  // NOLINT: `group.histogram` writes every entry
        [[nodiscard]] MULTIDRAFT_HD std::uint64_t* data() noexcept { return count; }
    };
    if constexpr (has_counters<G, N>) {
        return g.template counters<N>();
    } else {
        return array();
    }
}

/// The sum of some counters: a span of them, or anything indexed like one.
template <class Counters>
[[nodiscard]] MULTIDRAFT_HD std::uint64_t histogram_total(Counters const& counters) noexcept {
    std::uint64_t total = 0;
    for (std::size_t b = 0; b < counters.size(); ++b) total += counters[b];
    return total;
}

/// The bin in which a running sum from the last bin downwards reaches `wanted`; on return `wanted` is what is left to
/// take from that bin.
template <class Counters>
[[nodiscard]] MULTIDRAFT_HD index_t histogram_bin_reaching(Counters const& counters, std::uint64_t& wanted) noexcept {
    auto b = static_cast<index_t>(counters.size()) - 1;
    for (; b > 0 && counters[static_cast<std::size_t>(b)] < wanted; --b)
        wanted -= counters[static_cast<std::size_t>(b)];
    return b;
}

/// `histogram_total` and `histogram_bin_reaching` by a group: one with many lanes may have a faster method than one
/// counter after the other.
template <class G, class Counters>
[[nodiscard]] MULTIDRAFT_HD std::uint64_t total_by([[maybe_unused]] G const& g, Counters const& counters) {
    if constexpr (has_histogram_total<G, Counters>)
        return g.histogram_total(counters);
    else
        return histogram_total(counters);
}
template <class G, class Counters>
[[nodiscard]] MULTIDRAFT_HD index_t reaching_bin_by([[maybe_unused]] G const& g, Counters const& counters,
                                                    std::uint64_t& wanted) {
    if constexpr (has_histogram_bin_reaching<G, Counters>)
        return g.histogram_bin_reaching(counters, wanted);
    else
        return histogram_bin_reaching(counters, wanted);
}

/// 1 for the entries that equal the threshold and have mass: entries that were truncated before are not ties.
template <class X, class Mass, class Real>
struct tie {
    X x;
    Mass mass;
    Real value;
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD Real operator()(index_t i) const {
        return may_be_nonzero(i) && mass(i) > 0 ? Real(1) : Real(0);
    }
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD bool may_be_nonzero(index_t i) const { return x(i) == value; }
};

/// Whether an entry is a tie: `group.nth` tests `may_be_nonzero` first, which is cheap.
template <class Tie>
struct is_tie {
    Tie tie;
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD bool operator()(index_t i) const { return tie(i) > 0; }
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD bool may_be_nonzero(index_t i) const { return tie.may_be_nonzero(i); }
};

/// The number of lowest bits of a view's numbers that are always 0.
template <class X>
inline constexpr int idle_bits_in = 0;
template <has_idle_bits X>
inline constexpr int idle_bits_in<X> = X::idle_bits;

/// The keys that a descent over their bits considers: those from `first` on whose distance from it has `bits` bits. By
/// default all.
template <class Real>
struct key_range {
    static constexpr int width = static_cast<int>(sizeof(key_bits<Real>)) * 8;
    key_bits<Real> first = 0;
    int bits = width;

    /// A range that covers all numbers from `low` to `high`.
    [[nodiscard]] MULTIDRAFT_HD static key_range of(Real low, Real high) noexcept {
        key_range result{to_key(low), 1};
        key_bits<Real> const distance = to_key(high) - result.first;
        while (result.bits < width && distance >> result.bits != 0) ++result.bits;
        return result;
    }
    /// The same range for keys without their lowest bits.
    [[nodiscard]] MULTIDRAFT_HD key_range without(int lowest) const noexcept {
        if (lowest == 0) return *this;
        key_bits<Real> last = ~key_bits<Real>(0);
        if (bits < width && (key_bits<Real>(1) << bits) - 1 < last - first)
            last = first + ((key_bits<Real>(1) << bits) - 1);
        key_range result{static_cast<key_bits<Real>>(first >> lowest), 1};
        key_bits<Real> const distance = (last >> lowest) - result.first;
        while (result.bits < width && distance >> result.bits != 0) ++result.bits;
        return result;
    }
    /// The key of which these are the highest bits; the lowest are those of a number with zeros there.
    [[nodiscard]] MULTIDRAFT_HD static key_bits<Real> with(key_bits<Real> highest, int lowest) noexcept {
        if (lowest == 0) return highest;
        auto const key = static_cast<key_bits<Real>>(highest << lowest);
        bool const negative = key >> (width - 1) == 0;
        return negative ? key | ((key_bits<Real>(1) << lowest) - 1) : key;
    }
};

}  // namespace detail

/// The smallest set of largest entries whose mass reaches a target, ties to the lower index.
///
/// `x(i)` are the entries, not NaN; `mass(i)` their integer masses: 0, or > 0 and equal for equal entries;
/// `target(total)` is the mass wanted, given the sum of the masses, 1 <= target <= total. A radix descent over the bits
/// of the entries, 11 at a time: 3 (float) or 6 (double) passes of `group.histogram`, all but the first of which count
/// few entries, and one search among the entries that equal the threshold. The only scratch is 2048 counters. A group
/// whose counters are sent between ranks (`looks_ahead`) takes at most 9 bits at a time, skips bits that are 0 in every
/// entry (`has_idle_bits`), and finds the entry among equal ones by its number (`has_nth`).
///
/// If the entries up to `light`, a finite number, are known to have together no more mass than may be left out, the
/// first pass counts them as one. If the `range` of the entries with mass is known (and no `light` is given), a pass or
/// two is saved.
template <group G, class X, class Mass, class Target,
          class Real = std::decay_t<std::invoke_result_t<X const&, index_t>>>
[[nodiscard]] MULTIDRAFT_HD truncation_threshold<Real> threshold_of_mass(G const& g, index_t n, X const& x,
                                                                         Mass const& mass, Target const& target,
                                                                         Real light = minus_infinity<Real>,
                                                                         detail::key_range<Real> range = {}) {
    using real = Real;
    using bits = detail::key_bits<real>;
    constexpr int width = static_cast<int>(sizeof(bits)) * 8;
    constexpr int most_bits = looks_ahead<G> ? 9 : 11;
    constexpr int idle = looks_ahead<G> ? detail::idle_bits_in<X> : 0;
    if constexpr (idle > 0) range = range.without(idle);
    int digit = most_bits;
    if constexpr (looks_ahead<G>) {
        int const passes = (range.bits + most_bits - 1) / most_bits;
        digit = (range.bits + passes - 1) / passes;
    }
    auto storage = detail::selection_counters<std::size_t(1) << most_bits>(g);
    span<std::uint64_t> counters(storage.data(), std::size_t(1) << most_bits);
    // Light entries are counted in bin 0; the descent ends above them. No number has a key of 0.
    bits const light_key = light > minus_infinity<real> ? detail::to_key(light) : bits(0);
    bits const first = range.first;
    bits prefix = 0;
    std::uint64_t wanted = 0;
    std::uint64_t tie_mass = 0;
    for (int top = range.bits; top > 0; top -= digit) {
        int const shift = top > digit ? top - digit : 0;
        bits const above = top >= width ? bits(0) : static_cast<bits>(~bits(0) << top);
        bits const within = static_cast<bits>((bits(1) << (top - shift)) - 1);
        bits const lowest = top == width ? light_key : bits(0);
        if constexpr (looks_ahead<G>) counters = span<std::uint64_t>(storage.data(), std::size_t(1) << (top - shift));
        g.histogram(n,
                    function_of{x,
                                [=](auto const& row, index_t i) MULTIDRAFT_INLINE_LAMBDA {
                                    bits const key = (detail::to_key(row(i)) >> idle) - first;
                                    auto const b = static_cast<index_t>((key >> shift) & within &
                                                                        (bits(0) - bits(key > lowest ? 1 : 0)));
                                    return (key & above) == prefix ? b : none;
                                }},
                    mass, counters);
        if (top == range.bits) wanted = target(detail::total_by(g, counters));
        index_t const b = detail::reaching_bin_by(g, counters, wanted);
        tie_mass = counters[static_cast<std::size_t>(b)];
        prefix |= static_cast<bits>(static_cast<bits>(b) << shift);
    }
    truncation_threshold<real> result;
    result.value = detail::from_key<real>(detail::key_range<real>::with(prefix + first, idle));
    if (wanted < tie_mass) {  // not all of the entries that equal the threshold
        detail::tie<X, Mass, real> const tie{x, mass, result.value};
        if constexpr (has_nth<G>) {
            result.last =
                g.nth(n, detail::is_tie<detail::tie<X, Mass, real>>{tie}, [wanted, tie_mass](std::uint64_t ties) {
                    std::uint64_t const one = tie_mass / ties;
                    return (wanted + one - 1) / one;
                });
            return result;
        } else {
            auto const ties = g.sum_chunks(n, tie);
            // Equal entries have equal masses, so the tie that reaches the target is the ceil(wanted / one mass)-th. A
            // float counts the ties up to 2^24.
            std::uint64_t const one =
                ties.total < real(0x1p24)
                    ? tie_mass / static_cast<std::uint64_t>(ties.total)
                    : static_cast<std::uint64_t>(mass(g.inverse_cdf(ties, n, tie, 0.0, span<token_id const>{})));
            auto const number = static_cast<double>((wanted + one - 1) / one);
            // The k-th of n ones has the fractions from (k - 1) / n to k / n: its middle is safe from rounding.
            double const middle = (number - 0.5) / static_cast<double>(tie_mass / one);
            result.last = g.inverse_cdf(ties, n, tie, middle, span<token_id const>{});
        }
    }
    return result;
}

/// The same over the top entries of a row, as `group.top_k` lists them: the largest first, ties to the lower index.
template <class X, class Mass, class Target, class Real = std::decay_t<std::invoke_result_t<X const&, index_t>>>
[[nodiscard]] MULTIDRAFT_HD truncation_threshold<Real> threshold_of_mass_in_list(span<token_id const> list, X const& x,
                                                                                 Mass const& mass,
                                                                                 Target const& target) {
    std::uint64_t total = 0;
    for (token_id const i : list) total += static_cast<std::uint64_t>(mass(i));
    std::uint64_t wanted = target(total);
    truncation_threshold<Real> result;
    for (std::size_t first = 0; first < list.size();) {
        result.value = x(list[first]);
        auto const one = static_cast<std::uint64_t>(mass(list[first]));
        std::size_t end = first + 1;
        while (end < list.size() && x(list[end]) == result.value) ++end;
        std::uint64_t const of_ties = one * (end - first);
        if (wanted <= of_ties) {
            if (wanted < of_ties) result.last = list[first + static_cast<std::size_t>((wanted + one - 1) / one) - 1];
            break;
        }
        wanted -= of_ties;
        first = end;
    }
    return result;
}

/// The largest entries, ties to the lower index; `list` receives their indices, largest first, at most n. One pass of
/// `group.top_k`.
template <group G, class X>
[[nodiscard]] MULTIDRAFT_HD auto threshold_of_list(G const& g, index_t n, X const& x, span<token_id> list) {
    using real = std::decay_t<std::invoke_result_t<X const&, index_t>>;
    g.top_k(n, x, list);
    token_id const last = list[list.size() - 1];
    return truncation_threshold<real>{x(last), last};
}

/// The k largest entries, ties to the lower index; 1 <= k <= n.
template <group G, class X>
[[nodiscard]] MULTIDRAFT_HD auto threshold_of_top_k(G const& g, index_t n, X const& x, index_t k) {
    if constexpr (has_fast_top_k<G>) {
        if (k <= G::fast_top_k) {
            token_id list[static_cast<std::size_t>(G::fast_top_k)] = {};
            return threshold_of_list(g, n, x, span<token_id>(list, static_cast<std::size_t>(k)));
        }
    }
    return threshold_of_mass(
        g, n, x, [](index_t) { return std::int32_t(1); }, [k](std::uint64_t) { return static_cast<std::uint64_t>(k); });
}

}  // namespace MULTIDRAFT_NAMESPACE
