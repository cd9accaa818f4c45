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

/// The entries that equal the threshold and have mass: entries that were truncated before are not ties. `group.nth`
/// tests `may_be_nonzero` first, which is cheap.
template <class X, class Mass, class Real>
struct is_tie {
    X x;
    Mass mass;
    Real value;
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD bool operator()(index_t i) const {
        return may_be_nonzero(i) && mass(i) > 0;
    }
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD bool may_be_nonzero(index_t i) const { return x(i) == value; }
    [[nodiscard]] MULTIDRAFT_HD bool is_dense() const { return false; }
};

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
};

}  // namespace detail

/// The smallest set of largest entries whose mass reaches a target, ties to the lower index.
///
/// `x(i)` are the entries, not NaN; `mass(i)` their integer masses: 0, or > 0 and equal for equal entries;
/// `target(total)` is the mass wanted, given the sum of the masses, 1 <= target <= total. A radix descent over the bits
/// of the entries, `G::digit_bits` (11) at a time: 3 (float) or 6 (double) passes of `group.histogram`, all but the
/// first of which count few entries, and one search among the entries that equal the threshold. The only scratch is
/// 2048 counters.
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
    constexpr int digit = G::digit_bits;
    auto storage = g.template counters<std::size_t(1) << digit>();
    span<std::uint64_t> const counters(storage.data(), std::size_t(1) << digit);
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
        g.histogram(n,
                    function_of{x,
                                [=](auto const& row, index_t i) MULTIDRAFT_INLINE_LAMBDA {
                                    bits const key = detail::to_key(row(i)) - first;
                                    auto const b = static_cast<index_t>((key >> shift) & within &
                                                                        (bits(0) - bits(key > lowest ? 1 : 0)));
                                    return (key & above) == prefix ? b : none;
                                }},
                    mass, counters);
        if (top == range.bits) wanted = target(g.histogram_total(counters));
        index_t const b = g.histogram_bin_reaching(counters, wanted);
        tie_mass = counters[static_cast<std::size_t>(b)];
        prefix |= static_cast<bits>(static_cast<bits>(b) << shift);
    }
    truncation_threshold<real> result;
    result.value = detail::from_key<real>(prefix + first);
    // Not all of the entries that equal the threshold: these have equal masses, so the one that reaches the target is
    // the ceil(wanted / one mass)-th.
    if (wanted < tie_mass)
        result.last = g.nth(n, detail::is_tie<X, Mass, real>{x, mass, result.value}, [=](std::uint64_t ties) {
            std::uint64_t const one = tie_mass / ties;
            return (wanted + one - 1) / one;
        });
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
    if constexpr (G::fast_top_k > 0) {
        if (k <= G::fast_top_k) {
            token_id list[static_cast<std::size_t>(G::fast_top_k)] = {};
            return threshold_of_list(g, n, x, span<token_id>(list, static_cast<std::size_t>(k)));
        }
    }
    return threshold_of_mass(
        g, n, x, [](index_t) { return std::int32_t(1); }, [k](std::uint64_t) { return static_cast<std::uint64_t>(k); });
}

}  // namespace MULTIDRAFT_NAMESPACE
