// Sums over a row by a CUDA group: chunks summed by teams of warps, in the fixed order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/exp_log.hpp"
#include "multidraft/base/fma.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/cuda/lane_context.hpp"
#include "multidraft/cuda/simt_threads.hpp"
#include "multidraft/group/group.hpp"

namespace MULTIDRAFT_NAMESPACE::cuda {

/// `sum`, `sum_chunks` and `softmax`: chunks are summed in the fixed order, each by a team of warps.
template <lane_context Lanes, int Split, class Widest, int Wide>
class simt_sums : public simt_threads<Lanes, Split, Widest, Wide> {
    using base = simt_threads<Lanes, Split, Widest, Wide>;

public:
    using base::base;
    using base::own;
    using base::slots;
    using base::teams;
    using base::threads;
    using base::wide;

    template <class F>
    [[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_OUTLINE auto sum(index_t n, F const& f) const {
        using real = detail::result_of<F>;
        index_t const chunks = chunks_of(n);
        real total = 0;
        for (index_t first = 0; first < chunks; first += slots) {
            index_t const last = window_end(first, chunks);
            real* const sums = detail::next<real>(shared_->temporary, temporary_turn_);
            sum_window<16>(first, last, n, f, sums);
            total = in_order(sums, last - first, total);
        }
        return total;
    }

    template <class W>
    [[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_OUTLINE auto sum_chunks(index_t n, W const& w) const {
        using real = detail::result_of<W>;
        index_t const chunks = chunks_of(n);
        shared_chunk_sums<real> sums;
        for (index_t first = 0; first < chunks; first += slots) {
            index_t const last = window_end(first, chunks);
            sums.values = detail::next<real>(shared_->row_sums, row_sums_turn_);
            sum_window<32>(first, last, n, w, sums.values);
            sums.total = in_order(sums.values, last - first, sums.total);
        }
        return sums;
    }

    template <class Real>
    [[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_OUTLINE shared_chunk_sums<Real> sums_of_one(index_t n, index_t where) const {
        return sums_by<Real>(n, Real(1), [where](index_t c) MULTIDRAFT_INLINE_LAMBDA {
            return c == where / chunk_size ? Real(1) : Real(0);
        });
    }

    template <class Real>
    [[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_OUTLINE shared_chunk_sums<Real> sums_from(index_t n, Real const* values,
                                                                                     Real total) const {
        return sums_by<Real>(n, total, [values](index_t c) MULTIDRAFT_INLINE_LAMBDA { return values[c]; });
    }

    /// A thread keeps its entries of a whole chunk in registers between the chunk's maximum and its sum: the row is
    /// read once.
    template <class X, class Real = std::decay_t<std::invoke_result_t<X const&, index_t>>>
    [[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_OUTLINE softmax_sums<Real, shared_chunk_sums<Real>> softmax(
        index_t n, X const& x, Real scale) const {
        constexpr Real nothing = minus_infinity<Real>;
        exp_nonpositive<Real> const weight(scale);
        softmax_sums<Real, shared_chunk_sums<Real>> result;
        result.largest = nothing;
        index_t const chunks = chunks_of(n);
        for (index_t first = 0; first < chunks; first += slots) {
            index_t const last = window_end(first, chunks);
            Real* const peaks = detail::as<Real>(shared_->peaks[row_sums_turn_ & 1U]);
            Real* const sums = detail::next<Real>(shared_->row_sums, row_sums_turn_);
            result.sums.values = sums;
            for_chunks(first, last, [&](index_t c, bool active) MULTIDRAFT_INLINE_LAMBDA {
                Real peak = nothing;
                Real const here = exponentials_of_chunk(active ? c : 0, active ? n : 0, x, weight, peak);
                if (active && leads_team()) {
                    push(peaks, c - first, peak);
                    push(sums, c - first, here);
                }
            });
            lanes_.sync_all();
            collect(peaks, last - first);
            collect(sums, last - first);
            Real const before_window = result.largest;
            Real best = nothing;
            for (index_t c = lane(); c < last - first; c += warp_size) best = peaks[c] > best ? peaks[c] : best;
            best = warp_largest(best);
            result.largest = best > before_window ? best : before_window;
            for (index_t c = lanes_.thread(); c < last - first; c += threads)
                if (peaks[c] != result.largest && peaks[c] != nothing)
                    sums[c] = fp::mul(sums[c], weight(peaks[c] - result.largest));
            lanes_.sync();
            if (first > 0 && before_window < result.largest)
                result.sums.total = fp::mul(result.sums.total, weight(before_window - result.largest));
            result.sums.total = in_order(sums, last - first, result.sums.total);
        }
        return result;
    }

protected:
    using base::collect;
    using base::entry_of;
    using base::for_chunks;
    using base::in_order;
    using base::lane;
    using base::lanes_;
    using base::larger;
    using base::own_lanes;
    using base::push;
    using base::shared_;
    using base::warp;
    using base::warp_largest;
    using base::wide_lanes;
    using base::window_end;

    static constexpr int rows_at_once = wide / own;  ///< rows of a chunk that a warp reads at once
    static constexpr int threads_a_row = warp_size / rows_at_once;
    static constexpr index_t runs_a_row = chunk_lanes / wide;            ///< runs of `wide` entries
    static constexpr index_t reading_step = chunk_lanes * rows_at_once;  ///< entries from one reading to the next
    static constexpr auto readings = static_cast<std::size_t>(chunk_size / reading_step);  ///< of a whole chunk

    /// Chunk sums that are known: `value(c)` is that of chunk c.
    template <class Real, class Value>
    [[nodiscard]] MULTIDRAFT_HD shared_chunk_sums<Real> sums_by(index_t n, Real total, Value const& value) const {
        shared_chunk_sums<Real> sums{detail::next<Real>(shared_->row_sums, row_sums_turn_), total};
        for (index_t c = lanes_.thread(); c < kept_sums(n); c += threads) sums.values[c] = value(c);
        // Of all ranks: none writes to the other copy before every rank is done with it.
        lanes_.sync_all();
        return sums;
    }

    /// Sums chunks first .. last - 1 of f into `sums[0 ..]` of every rank. A thread reads `Entries` entries before it
    /// adds them (at most 16 rows). Every operation that sums f calls this one instance.
    template <int Entries, class Real, class F>
    MULTIDRAFT_HD MULTIDRAFT_OUTLINE void sum_window(index_t first, index_t last, index_t n, F const& function,
                                                     Real* sums) const {
        constexpr std::size_t wanted = Entries / wide < 1 ? 1 : Entries / wide;
        constexpr std::size_t together = wanted < readings ? wanted : readings;
        F const f = function;
        for_chunks(first, last, [&](index_t c, bool active) MULTIDRAFT_INLINE_LAMBDA {
            Real acc[own_lanes];
            MULTIDRAFT_UNROLL
            for (int j = 0; j < own; ++j) acc[j] = 0;
            if (active) {
                index_t const size = n - c * chunk_size < chunk_size ? n - c * chunk_size : chunk_size;
                index_t const run = first_run(c);
                index_t const whole = size / reading_step;
                auto const add = [&](Real(&values)[wide_lanes]) MULTIDRAFT_INLINE_LAMBDA {
                    exchange(values);
                    MULTIDRAFT_UNROLL
                    for (int k = 0; k < wide; ++k) acc[k % own] += values[k];
                };
                MULTIDRAFT_ROLL
                for (index_t begin = 0; begin < whole; begin += static_cast<index_t>(together)) {
                    Real values[together][wide_lanes];
                    MULTIDRAFT_UNROLL
                    for (std::size_t r = 0; r < together; ++r) {  // no branches between loads
                        index_t const reading = begin + static_cast<index_t>(r);
                        index_t const here = run + (reading < whole ? reading : begin) * (reading_step / wide);
                        MULTIDRAFT_UNROLL
                        for (index_t j = 0; j < wide; ++j) values[r][j] = f(entry_of(here, j));
                    }
                    MULTIDRAFT_UNROLL
                    for (std::size_t r = 0; r < together; ++r)
                        if (begin + static_cast<index_t>(r) < whole) add(values[r]);
                }
                if (size % reading_step != 0) {  // an added 0 does not change a sum
                    Real values[wide_lanes];
                    MULTIDRAFT_UNROLL
                    for (index_t j = 0; j < wide; ++j) {
                        index_t const i = entry_of(run + whole * (reading_step / wide), j);
                        values[j] = 0;
                        if (i < n) values[j] = f(i);
                    }
                    add(values);
                }
            }
            Real const here = pairwise(acc);
            if (active && leads_team()) push(sums, c - first, here);
        });
        lanes_.sync_all();
        collect(sums, last - first);
    }

    /// Whether the thread's warp is the one of its team that gets the results.
    [[nodiscard]] MULTIDRAFT_HD bool leads_team() const noexcept { return warp() % Split == 0; }

    /// Which of the rows that its warp reads at once this thread reads.
    [[nodiscard]] MULTIDRAFT_HD int reads_row() const noexcept { return lane() / threads_a_row; }

    /// The first run of `wide` entries that this thread reads in chunk c. Each further run is `runs_a_row` times
    /// `rows_at_once` runs later.
    [[nodiscard]] MULTIDRAFT_HD index_t first_run(index_t c) const noexcept {
        return c * (chunk_size / wide) + reads_row() * runs_a_row + warp() % Split * threads_a_row +
               lane() % threads_a_row;
    }

    /// Transposes what a warp has read: from `wide` adjacent entries of one row per thread to each thread's own lanes
    /// of all rows read, row by row. Thread t of row u gets lanes u * own, u * own + 1, .. of those that it read. In
    /// each step, threads that differ in one bit of their row exchange half of their values.
    template <class Real>
    MULTIDRAFT_HD void exchange([[maybe_unused]] Real (&v)[wide_lanes]) const {
        MULTIDRAFT_UNROLL
        for (int bit = rows_at_once / 2; bit > 0; bit /= 2) {
            bool const upper = (reads_row() & bit) != 0;
            MULTIDRAFT_UNROLL
            for (int k = 0; k < wide; ++k) {
                if ((k / own & bit) != 0) continue;
                Real& low = v[k];
                Real& high = v[k + bit * own];
                Real const got = lanes_.shuffle_xor(upper ? low : high, bit * threads_a_row);
                if (upper)
                    low = got;
                else
                    high = got;
            }
        }
    }

    /// The largest entry of chunk c, and the sum of weight(x - largest), which the team's leading warp gets; n = 0 for
    /// a team without a chunk.
    template <class X, class Real>
    [[nodiscard]] MULTIDRAFT_HD Real exponentials_of_chunk(index_t c, index_t n, X const& row,
                                                           exp_nonpositive<Real> const& weight, Real& peak) const {
        constexpr Real nothing = minus_infinity<Real>;
        X const x = row;
        index_t const run = first_run(c);
        Real acc[own_lanes];
        constexpr int chains = own < 4 ? own : 4;  // independent chains of comparisons
        Real best[static_cast<std::size_t>(chains)];
        MULTIDRAFT_UNROLL
        for (int j = 0; j < own; ++j) acc[j] = 0;
        MULTIDRAFT_UNROLL
        for (int j = 0; j < chains; ++j) best[j] = nothing;
        index_t const size = n - c * chunk_size < chunk_size ? n - c * chunk_size : chunk_size;
        index_t const whole = size / reading_step;
        Real kept[readings][wide_lanes];
        if (whole > 0) {  // uniform, without branches between loads: readings beyond the row read its beginning
            MULTIDRAFT_UNROLL
            for (std::size_t r = 0; r < readings; ++r) {
                index_t const reading = static_cast<index_t>(r) < whole ? static_cast<index_t>(r) : 0;
                MULTIDRAFT_UNROLL
                for (index_t j = 0; j < wide; ++j) kept[r][j] = x(entry_of(run + reading * (reading_step / wide), j));
            }
        }
        if (size != chunk_size) {  // what follows the whole readings takes the place of the last one
            MULTIDRAFT_UNROLL
            for (index_t j = 0; j < wide; ++j) {
                index_t const i = entry_of(run + whole * (reading_step / wide), j);
                kept[readings - 1][j] = nothing;
                if (i < n) kept[readings - 1][j] = x(i);
            }
        }
        auto const is_read = [whole](std::size_t r) MULTIDRAFT_INLINE_LAMBDA {
            return r == readings - 1 || static_cast<index_t>(r) < whole;
        };
        MULTIDRAFT_UNROLL
        for (std::size_t r = 0; r < readings; ++r) {
            if (!is_read(r)) continue;
            exchange(kept[r]);
            MULTIDRAFT_UNROLL
            for (int k = 0; k < wide; ++k) best[k % chains] = larger(kept[r][k], best[k % chains]);
        }
        MULTIDRAFT_UNROLL
        for (int half = chains / 2; half > 0; half /= 2) {
            MULTIDRAFT_UNROLL
            for (int j = 0; j < half; ++j) best[j] = larger(best[j + half], best[j]);
        }
        peak = team_largest(best[0]);
        Real const level = peak == nothing ? Real(0) : peak;
        MULTIDRAFT_UNROLL
        for (std::size_t r = 0; r < readings; ++r) {
            if (!is_read(r)) continue;
            MULTIDRAFT_UNROLL
            for (int k = 0; k < wide; ++k) acc[k % own] += weight(kept[r][k] - level);  // 0 beyond the row
        }
        return pairwise(acc);
    }

    template <class Real>
    [[nodiscard]] MULTIDRAFT_HD Real team_largest(Real best) const {
        best = warp_largest(best);
        if constexpr (Split > 1) {
            Real* const all = detail::next<Real>(shared_->team_peak, peak_turn_) + warp() / Split * Split;
            if (lane() == 0) all[warp() % Split] = best;
            lanes_.sync();
            MULTIDRAFT_UNROLL
            for (int w = 0; w < Split; ++w) best = all[w] > best ? all[w] : best;
        }
        return best;
    }

    /// The sum of a chunk from the threads' lanes, in the fixed order; the team's leading warp gets it.
    template <class Real>
    [[nodiscard]] MULTIDRAFT_HD Real pairwise(Real (&acc)[own_lanes]) const {
        if constexpr (Split > 1) {  // strides across warps come first
            constexpr int others = (Split - 1) * warp_size;
            Real* const all = detail::next<Real>(shared_->partial, partial_turn_) + warp() / Split * (others * own);
            if (!leads_team()) {
                MULTIDRAFT_UNROLL
                for (int j = 0; j < own; ++j) all[(warp() % Split - 1) * (warp_size * own) + lane() * own + j] = acc[j];
            }
            lanes_.sync();
            if (!leads_team()) return acc[0];
            Real part[static_cast<std::size_t>(Split - 1)][own_lanes];
            MULTIDRAFT_UNROLL
            for (int w = 0; w < Split - 1; ++w) {
                MULTIDRAFT_UNROLL
                for (int j = 0; j < own; ++j) part[w][j] = all[w * (warp_size * own) + lane() * own + j];
            }
            MULTIDRAFT_UNROLL
            for (int j = 0; j < own; ++j) {
                MULTIDRAFT_UNROLL
                for (int half = Split / 2; half > 0; half /= 2) {
                    acc[j] += part[half - 1][j];
                    MULTIDRAFT_UNROLL
                    for (int w = 1; w < half; ++w) part[w - 1][j] += part[w + half - 1][j];
                }
            }
        }
        return fold<rows_at_once>(acc);
    }

    /// Sums `Width` adjacent lanes per thread over a warp: first the strides across threads, largest first, then Width
    /// / 2 .. 1 within a thread. While a thread has several values, each thread of a pair takes half of them, so that 8
    /// per thread take 12 shuffles instead of 40. Additions commute, so the operands' order does not matter.
    ///
    /// If the warp reads `Rows` rows at once, threads of one row are `Width * Rows` lanes apart, with the next row's
    /// threads between them: see `exchange`.
    template <int Rows, std::size_t Width, class Real>
    [[nodiscard]] MULTIDRAFT_HD Real fold(Real (&v)[Width]) const {
        Real total = across<0, Rows>(v);
        // The thread has one of `Width` values; the strides within a thread are the bits that selected it.
        MULTIDRAFT_UNROLL
        for (int k = 0; (1 << k) < static_cast<int>(Width); ++k) total += lanes_.shuffle_xor(total, bit_of<Rows>(k));
        return total;
    }

    /// The bit of a thread's number for the k-th largest stride across threads.
    template <int Rows>
    [[nodiscard]] MULTIDRAFT_HD static constexpr int bit_of(int k) noexcept {
        int const bit = (warp_size / 2 / Rows) >> k;
        return bit > 0 ? bit : (warp_size * warp_size / 2 / Rows) >> k;
    }

    template <int Step, int Rows, std::size_t Width, class Real>
    [[nodiscard]] MULTIDRAFT_HD Real across(Real (&v)[Width]) const {
        constexpr int bit = bit_of<Rows>(Step);
        if constexpr (Width > 1) {
            constexpr std::size_t half = Width / 2;
            bool const upper = (lane() & bit) != 0;
            Real rest[half];
            MULTIDRAFT_UNROLL
            for (std::size_t j = 0; j < half; ++j) {
                Real const kept = upper ? v[j + half] : v[j];
                Real const given = upper ? v[j] : v[j + half];
                rest[j] = kept + lanes_.shuffle_xor(given, bit);
            }
            return across<Step + 1, Rows>(rest);
        } else {
            Real total = v[0];
            MULTIDRAFT_UNROLL
            for (int k = Step; k < 5; ++k) total += lanes_.shuffle_xor(total, bit_of<Rows>(k));
            return total;
        }
    }

    mutable unsigned row_sums_turn_ = 0;
    mutable unsigned temporary_turn_ = 0;
    mutable unsigned partial_turn_ = 0;
    mutable unsigned peak_turn_ = 0;
};

}  // namespace MULTIDRAFT_NAMESPACE::cuda
