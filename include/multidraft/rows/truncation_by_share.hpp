// The threshold of top-p: the smallest set of largest entries of a row whose weights reach a share of the total,
// however flat the tail.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "multidraft/base/blend.hpp"
#include "multidraft/base/config.hpp"
#include "multidraft/base/exp_log.hpp"
#include "multidraft/base/fma.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/group/optional_members.hpp"
#include "multidraft/group/runs.hpp"
#include "multidraft/rows/truncation.hpp"

namespace MULTIDRAFT_NAMESPACE {

namespace detail {

/// Weights of logits as integers, each in a unit that fits its magnitude, so that their sums do not depend on the order
/// of addition and lose no bit of a float.
///
/// Logits are in bins of a 16th of an octave of their weight, from the largest on, 128 octaves; lighter ones are in the
/// last bin. The unit of a bin is 2^-30 of the power of two above its weights. `Row` is a `softmax_row`.
template <class Row>
struct weights_in_bins {
    using real = typename Row::real;
    static constexpr index_t an_octave = 16;
    static constexpr index_t count = 128 * an_octave;

    Row row;
    real rate;  ///< bins per unit of a logit

    MULTIDRAFT_HD weights_in_bins(Row const& of, real bins_a_unit) noexcept : row(of), rate(bins_a_unit) {}
    MULTIDRAFT_HD explicit weights_in_bins(Row const& of) noexcept : row(of) {
        real const exact = fp::mul(of.scale(), static_cast<real>(0x1.715476p4));  // 16 log2 e
        rate = exact < static_cast<real>(0x1p120F) ? exact : static_cast<real>(0x1p120F);
    }

    [[nodiscard]] MULTIDRAFT_HD weights_in_bins in_chunk(index_t begin, index_t end) const requires has_runs<Row> {
        weights_in_bins result = *this;
        result.row = row.in_chunk(begin, end);
        return result;
    }
    [[nodiscard]] MULTIDRAFT_HD bool is_empty_run(index_t) const requires has_runs<Row> { return false; }
    template <class Body>
    MULTIDRAFT_INLINE MULTIDRAFT_HD void on_run(index_t begin, index_t end,
                                                Body const& body) const requires has_runs<Row> {
        row.on_run(begin, end, [&](auto const& here) MULTIDRAFT_INLINE_LAMBDA {
            body(weights_in_bins<std::remove_cvref_t<decltype(here)>>{here, rate});
        });
    }

    /// How many bins below the largest a logit lies. No branch, as in every function called in a loop over tokens.
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD index_t below(real x) const noexcept {
        real const at = fp::mul(row.largest() - x, rate);
        constexpr auto last = static_cast<real>(count - 1);
        return static_cast<index_t>(at < last ? at : last);
    }
    /// The weight of entry i, in units of the bin that lies so far below. Less than 2^31.
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD std::int32_t mass(index_t i, index_t bins_below) const noexcept {
        auto const octave = static_cast<real>(power_of_two(bins_below / an_octave));
        real const units = row.weight(i) * octave * static_cast<real>(0x1p30F);
        // Larger for an entry of another bin: such entries are evaluated but not counted.
        constexpr auto most = static_cast<real>(0x1.fffffep30F);
        return static_cast<std::int32_t>(units < most ? units : most);
    }
    /// Units of a bin in one of 2^-`unit`, as a power of two.
    [[nodiscard]] MULTIDRAFT_HD static std::int32_t shift(index_t bins_below, std::int32_t unit) noexcept {
        return unit - 30 - bins_below / an_octave;
    }
    /// A range of keys that contains all logits of a bin.
    [[nodiscard]] MULTIDRAFT_HD key_range<real> range(index_t bins_below) const noexcept {
        if (bins_below == count - 1 || !(rate > 0)) return {};
        // With a margin: `below` rounds, and so does this.
        real const largest = row.largest();
        real const margin = fp::mul(largest < 0 ? -largest : largest, static_cast<real>(0x1p-20F));
        real const nearer = fp::mul(fp::div(static_cast<real>(bins_below), rate), static_cast<real>(0.9999));
        real const farther = fp::mul(fp::div(static_cast<real>(bins_below + 1), rate), static_cast<real>(1.0001));
        return key_range<real>::of(largest - farther - fp::mul(farther, static_cast<real>(0x1p-20F)) - margin,
                                   largest - nearer + margin);
    }
};

/// A number below 2^62 shifted to the left, or by a negative number to the right. No branch.
[[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE std::uint64_t shifted(std::uint64_t x, std::int32_t by) noexcept {
    std::int32_t const right = by < 0 ? -by : 0;
    return x << (by > 0 ? by : 0) >> (right < 63 ? right : 63);
}

/// Counters of `weights_in_bins`, the heaviest bin last, as a sequence in one unit, 2^-`unit`; fractions of a unit are
/// lost, once a bin. Counter 0 may be in the units of another bin, `lightest`.
template <class Bins>
struct counters_in_one_unit {
    span<std::uint64_t const> counters;
    std::int32_t unit;
    index_t lightest;

    [[nodiscard]] MULTIDRAFT_HD std::size_t size() const noexcept { return counters.size(); }
    [[nodiscard]] MULTIDRAFT_HD std::uint64_t operator[](std::size_t b) const noexcept {
        index_t const bin = b == 0 ? lightest : static_cast<index_t>(counters.size() - 1 - b);
        return shifted(counters[b], Bins::shift(bin, unit));
    }
};

/// The unit, 2^-n, in which a mass of floats has 61 bits or 62.
[[nodiscard]] MULTIDRAFT_HD inline std::int32_t unit_for(double mass) noexcept {
    auto const exponent = static_cast<std::int32_t>(__builtin_bit_cast(std::uint64_t, mass) >> 52 & 0x7ffU) - 1023;
    return 61 - exponent;
}

/// A share of a number of units, rounded up; 1 at least.
[[nodiscard]] MULTIDRAFT_HD inline std::uint64_t share_of(double share, std::uint64_t all) noexcept {
    double const exact = fp::mul(share, static_cast<double>(all));
    auto wanted = static_cast<std::uint64_t>(exact);
    if (static_cast<double>(wanted) < exact) ++wanted;
    wanted = wanted > 0 ? wanted : 1;
    return wanted < all ? wanted : all;
}

/// The mass wanted from one bin, converted from units of 2^-`unit` to the bin's own.
[[nodiscard]] MULTIDRAFT_HD inline std::uint64_t wanted_of_bin(std::uint64_t wanted, std::int32_t shift) noexcept {
    if (shift <= 0) return shifted(wanted, -shift);
    std::uint64_t const whole = wanted >> shift;
    return whole << shift == wanted ? whole : whole + 1;
}

/// The masses of one bin; those of others are 0.
template <class Bins>
struct mass_of_bin {
    Bins bins;
    index_t bins_below;

    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD std::int32_t operator()(index_t i) const noexcept {
        return detail::blend(bins.below(bins.row.logit(i)) == bins_below, bins.mass(i, bins_below), 0);
    }
    [[nodiscard]] MULTIDRAFT_HD mass_of_bin in_chunk(index_t begin, index_t end) const requires has_runs<Bins> {
        return {bins.in_chunk(begin, end), bins_below};
    }
    [[nodiscard]] MULTIDRAFT_HD bool is_empty_run(index_t) const requires has_runs<Bins> { return false; }
    template <class Body>
    MULTIDRAFT_INLINE MULTIDRAFT_HD void on_run(index_t begin, index_t end,
                                                Body const& body) const requires has_runs<Bins> {
        bins.on_run(begin, end, [&](auto const& here) MULTIDRAFT_INLINE_LAMBDA {
            body(mass_of_bin<std::remove_cvref_t<decltype(here)>>{here, bins_below});
        });
    }
};

/// The logits of a row.
template <class Row>
struct logits_of {
    Row row;
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD auto operator()(index_t i) const noexcept { return row.logit(i); }
    [[nodiscard]] MULTIDRAFT_HD logits_of in_chunk(index_t begin, index_t end) const requires has_runs<Row> {
        return {row.in_chunk(begin, end)};
    }
    [[nodiscard]] MULTIDRAFT_HD bool is_empty_run(index_t) const requires has_runs<Row> { return false; }
    template <class Body>
    MULTIDRAFT_INLINE MULTIDRAFT_HD void on_run(index_t begin, index_t end,
                                                Body const& body) const requires has_runs<Row> {
        row.on_run(begin, end, [&](auto const& here) MULTIDRAFT_INLINE_LAMBDA {
            body(logits_of<std::remove_cvref_t<decltype(here)>>{here});
        });
    }
};

}  // namespace detail

/// The smallest set of the largest logits of a row whose weights reach `share` of those of all, ties to the lower
/// index.
///
/// Weights are floats, of which nothing is lost here: they are counted in integers, in units that fit their magnitude.
/// The counts of bins are added in units of about 2^-61 of `mass`, an upper bound of the sum of all weights. One pass
/// of `group.histogram`, and those of `threshold_of_mass`, over the logits of a 16th of an octave.
///
/// - Logits below `least`, which the row does not keep, are ignored.
/// - If the logits up to `light`, a finite number, are known to have together no more mass than may be left out, the
///   pass counts them as one.
template <group G, class Row, class Real = typename Row::real>
[[nodiscard]] MULTIDRAFT_HD truncation_threshold<Real> threshold_of_share(G const& g, Row const& row, double share,
                                                                          Real mass, Real least = minus_infinity<Real>,
                                                                          Real light = minus_infinity<Real>) {
    using bins_type = detail::weights_in_bins<Row>;
    index_t const n = row.size();
    bins_type const bins(row);
    std::int32_t const unit = detail::unit_for(static_cast<double>(mass));
    index_t const lightest = light > minus_infinity<Real> ? bins.below(light) : bins_type::count - 1;
    // The counter of the heaviest bin: the bins of light logits have none of their own but are counted in counter 0. A
    // multiple of 32 counters.
    index_t heaviest = bins_type::count - 1;
    if (light > minus_infinity<Real> && lightest < heaviest) heaviest = (lightest + 1) | 31;
    std::uint64_t wanted = 0;
    index_t b = 0;
    {
        auto storage = g.template counters<static_cast<std::size_t>(bins_type::count)>();
        span<std::uint64_t> const counters(storage.data(), static_cast<std::size_t>(heaviest) + 1);
        auto const light_key = light > minus_infinity<Real> ? detail::to_key(light) : detail::key_bits<Real>(0);
        auto const least_key = least > minus_infinity<Real> ? detail::to_key(least) : detail::key_bits<Real>(0);
        g.histogram(n,
                    function_of{bins,
                                [=](auto const& here, index_t i) MULTIDRAFT_INLINE_LAMBDA {
                                    Real const x = here.row.logit(i);
                                    auto const key = detail::to_key(x);
                                    index_t const bin = detail::blend(key > light_key, heaviest - here.below(x), 0);
                                    return detail::blend(key >= least_key, bin, none);
                                }},
                    function_of{bins,
                                [=](auto const& here, index_t i) MULTIDRAFT_INLINE_LAMBDA {
                                    Real const x = here.row.logit(i);
                                    return here.mass(
                                        i, detail::blend(detail::to_key(x) > light_key, here.below(x), lightest));
                                }},
                    counters);
        detail::counters_in_one_unit<bins_type> const masses{counters, unit, lightest};
        wanted = detail::share_of(share, g.histogram_total(masses));
        b = g.histogram_bin_reaching(masses, wanted);
    }
    // Because of rounding the others do not reach the share: keep all of them.
    if (b == 0 && light > minus_infinity<Real>) {
        if (light < least) return {least, largest_number<index_t>};
        return {light, none};
    }
    index_t const chosen = heaviest - b;
    std::uint64_t const in_bin = detail::wanted_of_bin(wanted, bins_type::shift(chosen, unit));
    return threshold_of_mass(
        g, n, detail::logits_of<Row>{row}, detail::mass_of_bin<bins_type>{bins, chosen},
        [in_bin](std::uint64_t all) { return in_bin < all ? in_bin : all; }, minus_infinity<Real>, bins.range(chosen));
}

/// The same over the top entries of a row, as `group.top_k` lists them; the share is of the mass of the list.
template <class Row, class Real = typename Row::real>
[[nodiscard]] MULTIDRAFT_HD truncation_threshold<Real> threshold_of_share_in_list(span<token_id const> list,
                                                                                  Row const& row, double share,
                                                                                  Real mass) {
    using bins_type = detail::weights_in_bins<Row>;
    bins_type const bins(row);
    std::int32_t const unit = detail::unit_for(static_cast<double>(mass));
    // Visits the bins of the list one after another: `visit(bin, mass in the common unit)` until it returns true.
    auto const for_each_bin = [&](auto const& visit) {
        for (std::size_t first = 0; first < list.size();) {
            index_t const here = bins.below(row.logit(list[first]));
            std::uint64_t of_bin = 0;
            for (; first < list.size() && bins.below(row.logit(list[first])) == here; ++first)
                of_bin += static_cast<std::uint64_t>(bins.mass(list[first], here));
            if (visit(here, detail::shifted(of_bin, bins_type::shift(here, unit)))) return;
        }
    };
    std::uint64_t all = 0;
    for_each_bin([&](index_t, std::uint64_t of_bin) {
        all += of_bin;
        return false;
    });
    std::uint64_t wanted = detail::share_of(share, all);
    index_t chosen = 0;
    for_each_bin([&](index_t bin, std::uint64_t of_bin) {
        chosen = bin;
        if (of_bin >= wanted) return true;
        wanted -= of_bin;
        return false;
    });
    std::uint64_t const in_bin = detail::wanted_of_bin(wanted, bins_type::shift(chosen, unit));
    return threshold_of_mass_in_list(list, detail::logits_of<Row>{row}, detail::mass_of_bin<bins_type>{bins, chosen},
                                     [in_bin](std::uint64_t of_bin) { return in_bin < of_bin ? in_bin : of_bin; });
}

/// `threshold_of_share` of a whole row from its top entries, where these certainly decide it: writes `result` and
/// returns true, or returns false. `mass` is the sum of all weights, summed as floats.
///
/// The mass of the entries up to the last one kept has to exceed the share, and that of those before it has to miss it,
/// by more than the rounding of `mass`.
template <class Row, class Real = typename Row::real>
[[nodiscard]] MULTIDRAFT_HD bool share_is_listed(span<token_id const> list, Row const& row, double share, Real mass,
                                                 truncation_threshold<Real>& result) {
    double const wanted = fp::mul(share, static_cast<double>(mass));
    double const rounding = fp::mul(wanted, 0x1p-13);
    double sum = 0;
    for (std::size_t k = 0; k + 1 < list.size(); ++k) {
        sum += static_cast<double>(row.weight(list[k]));
        if (sum < wanted - rounding) continue;
        if (!(sum > wanted + rounding)) return false;
        result.value = row.logit(list[k]);
        bool const has_tie = row.logit(list[k + 1]) == result.value;
        result.last = has_tie ? list[k] : largest_number<index_t>;
        return true;
    }
    return false;
}

}  // namespace MULTIDRAFT_NAMESPACE
