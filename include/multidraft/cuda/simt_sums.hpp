// Sums over a row by a CUDA group: chunks summed by teams of warps, in the fixed order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/exp_log.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/cuda/lane_context.hpp"
#include "multidraft/cuda/simt_threads.hpp"
#include "multidraft/group/group.hpp"

namespace MULTIDRAFT_NAMESPACE::cuda::detail {

/// The bit of a thread's number for the k-th largest stride across threads.
template <int Rows>
[[nodiscard]] MULTIDRAFT_HD constexpr int bit_of(int k) noexcept {
    int const bit = (warp_size / 2 / Rows) >> k;
    return bit > 0 ? bit : (warp_size * warp_size / 2 / Rows) >> k;
}

/// The strides of `fold` across threads, from the Step-th on.
template <int Step, int Rows, std::size_t Width, class Real, class T>
[[nodiscard]] MULTIDRAFT_HD Real across(T const& t, Real (&v)[Width]) {
    constexpr int bit = bit_of<Rows>(Step);
    if constexpr (Width > 1) {
        constexpr std::size_t half = Width / 2;
        bool const upper = (t.lane() & bit) != 0;
        Real rest[half];
        MULTIDRAFT_UNROLL
        for (std::size_t j = 0; j < half; ++j) {
            Real const kept = upper ? v[j + half] : v[j];
            Real const given = upper ? v[j] : v[j + half];
            rest[j] = kept + t.lanes().shuffle_xor(given, bit);
        }
        return across<Step + 1, Rows>(t, rest);
    } else {
        Real total = v[0];
        MULTIDRAFT_UNROLL
        for (int k = Step; k < 5; ++k) total += t.lanes().shuffle_xor(total, bit_of<Rows>(k));
        return total;
    }
}

/// Sums `Width` adjacent lanes per thread over a warp: first the strides across threads, largest first, then Width
/// / 2 .. 1 within a thread. While a thread has several values, each thread of a pair takes half of them, so that 8
/// per thread take 12 shuffles instead of 40. Additions commute, so the operands' order does not matter.
///
/// If the warp reads `Rows` rows at once, threads of one row are `Width * Rows` lanes apart, with the next row's
/// threads between them: see `exchange`.
template <int Rows, std::size_t Width, class Real, class T>
[[nodiscard]] MULTIDRAFT_HD Real fold(T const& t, Real (&v)[Width]) {
    Real total = across<0, Rows>(t, v);
    // The thread has one of `Width` values; the strides within a thread are the bits that selected it.
    MULTIDRAFT_UNROLL
    for (int k = 0; (1 << k) < static_cast<int>(Width); ++k) total += t.lanes().shuffle_xor(total, bit_of<Rows>(k));
    return total;
}

/// The sum of a chunk from the threads' lanes, in the fixed order; the team's leading warp gets it.
template <class Real, class T>
[[nodiscard]] MULTIDRAFT_HD Real pairwise(T const& t, Real (&acc)[T::own_lanes]) {
    if constexpr (T::split > 1) {  // strides across warps come first
        constexpr int others = (T::split - 1) * warp_size;
        Real* const all = t.template next_partial<Real>() + t.warp() / T::split * (others * T::own);
        if (!t.leads_team()) {
            MULTIDRAFT_UNROLL
            for (int j = 0; j < T::own; ++j)
                all[(t.warp() % T::split - 1) * (warp_size * T::own) + t.lane() * T::own + j] = acc[j];
        }
        t.lanes().sync();
        if (!t.leads_team()) return acc[0];
        Real part[static_cast<std::size_t>(T::split - 1)][T::own_lanes];
        MULTIDRAFT_UNROLL
        for (int w = 0; w < T::split - 1; ++w) {
            MULTIDRAFT_UNROLL
            for (int j = 0; j < T::own; ++j) part[w][j] = all[w * (warp_size * T::own) + t.lane() * T::own + j];
        }
        MULTIDRAFT_UNROLL
        for (int j = 0; j < T::own; ++j) {
            MULTIDRAFT_UNROLL
            for (int half = T::split / 2; half > 0; half /= 2) {
                acc[j] += part[half - 1][j];
                MULTIDRAFT_UNROLL
                for (int w = 1; w < half; ++w) part[w - 1][j] += part[w + half - 1][j];
            }
        }
    }
    return fold<T::rows_at_once>(t, acc);
}

/// Sums chunks first .. last - 1 of f into `sums[0 ..]` of every rank. A thread reads `Entries` entries before it
/// adds them (at most 16 rows). Every operation that sums f calls this one instance.
template <int Entries, class Real, class F, class T>
MULTIDRAFT_HD MULTIDRAFT_OUTLINE void sum_window(T const& t, index_t first, index_t last, index_t n, F const& function,
                                                 Real* sums) {
    constexpr std::size_t wanted = Entries / T::wide < 1 ? 1 : Entries / T::wide;
    constexpr std::size_t together = wanted < T::readings ? wanted : T::readings;
    F const f = function;
    t.for_chunks(first, last, [&](index_t c, bool active) MULTIDRAFT_INLINE_LAMBDA {
        Real acc[T::own_lanes];
        MULTIDRAFT_UNROLL
        for (int j = 0; j < T::own; ++j) acc[j] = 0;
        if (active) {
            index_t const size = n - c * chunk_size < chunk_size ? n - c * chunk_size : chunk_size;
            index_t const run = t.first_run(c);
            index_t const whole = size / T::reading_step;
            auto const add = [&](Real(&values)[T::wide_lanes]) MULTIDRAFT_INLINE_LAMBDA {
                t.exchange(values);
                MULTIDRAFT_UNROLL
                for (int k = 0; k < T::wide; ++k) acc[k % T::own] += values[k];
            };
            MULTIDRAFT_ROLL
            for (index_t begin = 0; begin < whole; begin += static_cast<index_t>(together)) {
                Real values[together][T::wide_lanes];
                MULTIDRAFT_UNROLL
                for (std::size_t r = 0; r < together; ++r) {  // no branches between loads
                    index_t const reading = begin + static_cast<index_t>(r);
                    index_t const here = run + (reading < whole ? reading : begin) * (T::reading_step / T::wide);
                    MULTIDRAFT_UNROLL
                    for (index_t j = 0; j < T::wide; ++j) values[r][j] = f(T::entry_of(here, j));
                }
                MULTIDRAFT_UNROLL
                for (std::size_t r = 0; r < together; ++r)
                    if (begin + static_cast<index_t>(r) < whole) add(values[r]);
            }
            if (size % T::reading_step != 0) {  // an added 0 does not change a sum
                Real values[T::wide_lanes];
                MULTIDRAFT_UNROLL
                for (index_t j = 0; j < T::wide; ++j) {
                    index_t const i = T::entry_of(run + whole * (T::reading_step / T::wide), j);
                    values[j] = 0;
                    if (i < n) values[j] = f(i);
                }
                add(values);
            }
        }
        Real const here = pairwise(t, acc);
        if (active && t.leads_team()) t.push(sums, c - first, here);
    });
    t.lanes().sync_all();
    t.collect(sums, last - first);
}

/// The largest of a value of each thread of a team, which all of them get.
template <class Real, class T>
[[nodiscard]] MULTIDRAFT_HD Real team_largest(T const& t, Real best) {
    best = t.warp_largest(best);
    if constexpr (T::split > 1) {
        Real* const all = t.template next_team_peak<Real>() + t.warp() / T::split * T::split;
        if (t.lane() == 0) all[t.warp() % T::split] = best;
        t.lanes().sync();
        MULTIDRAFT_UNROLL
        for (int w = 0; w < T::split; ++w) best = all[w] > best ? all[w] : best;
    }
    return best;
}

/// The largest entry of chunk c, and the sum of weight(x - largest), which the team's leading warp gets; n = 0 for
/// a team without a chunk. The chunk is read twice, the second time from the L1 cache: kept in registers, it took all
/// of a multiprocessor's for one block, and code without loops, which few requests wait for.
template <class X, class Real, class T>
[[nodiscard]] MULTIDRAFT_HD Real exponentials_of_chunk(T const& t, index_t c, index_t n, X const& row,
                                                       exp_nonpositive<Real> const& weight, Real& peak) {
    constexpr Real nothing = minus_infinity<Real>;
    constexpr std::size_t together = 4 < T::readings ? 4 : T::readings;  // readings without branches between loads
    constexpr int chains = T::own < 4 ? T::own : 4;                      // independent chains of comparisons
    X const x = row;
    index_t const run = t.first_run(c);
    index_t const size = n - c * chunk_size < chunk_size ? n - c * chunk_size : chunk_size;
    index_t const whole = size / T::reading_step;
    constexpr index_t step = T::reading_step / T::wide;
    // Calls body(values) for what this thread reads of the chunk, in order; entries beyond the row are -infinity.
    auto const for_readings = [&](auto const& body) MULTIDRAFT_INLINE_LAMBDA {
        MULTIDRAFT_ROLL
        for (index_t begin = 0; begin < whole; begin += static_cast<index_t>(together)) {
            Real values[together][T::wide_lanes];
            MULTIDRAFT_UNROLL
            for (std::size_t r = 0; r < together; ++r) {
                index_t const reading = begin + static_cast<index_t>(r);
                index_t const here = run + (reading < whole ? reading : begin) * step;
                MULTIDRAFT_UNROLL
                for (index_t j = 0; j < T::wide; ++j) values[r][j] = x(T::entry_of(here, j));
            }
            MULTIDRAFT_UNROLL
            for (std::size_t r = 0; r < together; ++r)
                if (begin + static_cast<index_t>(r) < whole) body(values[r]);
        }
        if (size % T::reading_step != 0) {
            Real values[T::wide_lanes];
            MULTIDRAFT_UNROLL
            for (index_t j = 0; j < T::wide; ++j) {
                index_t const i = T::entry_of(run + whole * step, j);
                values[j] = nothing;
                if (i < n) values[j] = x(i);
            }
            body(values);
        }
    };
    Real best[static_cast<std::size_t>(chains)];
    MULTIDRAFT_UNROLL
    for (int j = 0; j < chains; ++j) best[j] = nothing;
    for_readings([&](Real(&values)[T::wide_lanes]) MULTIDRAFT_INLINE_LAMBDA {
        MULTIDRAFT_UNROLL
        for (int k = 0; k < T::wide; ++k) best[k % chains] = T::larger(values[k], best[k % chains]);
    });
    MULTIDRAFT_UNROLL
    for (int half = chains / 2; half > 0; half /= 2) {
        MULTIDRAFT_UNROLL
        for (int j = 0; j < half; ++j) best[j] = T::larger(best[j + half], best[j]);
    }
    peak = team_largest(t, best[0]);
    Real const level = peak == nothing ? Real(0) : peak;
    Real acc[T::own_lanes];
    MULTIDRAFT_UNROLL
    for (int j = 0; j < T::own; ++j) acc[j] = 0;
    for_readings([&](Real(&values)[T::wide_lanes]) MULTIDRAFT_INLINE_LAMBDA {
        t.exchange(values);
        MULTIDRAFT_UNROLL
        for (int k = 0; k < T::wide; ++k) acc[k % T::own] += weight(values[k] - level);  // 0 beyond the row
    });
    return pairwise(t, acc);
}

/// The largest entries of chunks first .. last - 1 into `peaks`, and the sums of weight(x - largest) into `sums`, of
/// every rank.
template <class X, class Real, class T>
MULTIDRAFT_HD MULTIDRAFT_INLINE void exponentials_of_window(T const& t, index_t first, index_t last, index_t n,
                                                            X const& x, exp_nonpositive<Real> const& weight,
                                                            Real* peaks, Real* sums) {
    t.for_chunks(first, last, [&](index_t c, bool active) MULTIDRAFT_INLINE_LAMBDA {
        Real peak = minus_infinity<Real>;
        Real const here = exponentials_of_chunk(t, active ? c : 0, active ? n : 0, x, weight, peak);
        if (active && t.leads_team()) {
            t.push(peaks, c - first, peak);
            t.push(sums, c - first, here);
        }
    });
    t.lanes().sync_all();
    t.collect(peaks, last - first);
    t.collect(sums, last - first);
}

}  // namespace MULTIDRAFT_NAMESPACE::cuda::detail
