// One chunk of a row on one thread: its sum, its largest entry and the search in it, by vector units.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/exp_log.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/choose_run.hpp"
#include "multidraft/group/chunk_folds.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/group/optional_members.hpp"
#include "multidraft/group/runs.hpp"

namespace MULTIDRAFT_NAMESPACE::detail {

/// What one thread does with a chunk, in explicit lanes, so that a compiler vectorises the loops without -ffast-math:
/// the primitives of `chunk_folds` for groups of CPU threads. The chunk is that of number c of a row of n entries.
class host_chunk {
protected:
    /// The fold in the fixed order, for `fold_window`.
    template <class Op, class F>
    [[nodiscard]] MULTIDRAFT_HD static auto fold(index_t c, index_t n, F const& f) {
        if constexpr (std::is_same_v<Op, adding>)
            return sum(c, n, f);
        else
            return largest(c, n, f);
    }

    /// The largest entry and the sum of weight(x - largest): the chunk is read twice while it is in the first-level
    /// cache.
    template <class X, class Real>
    MULTIDRAFT_HD static void exponentials_of(index_t c, index_t n, X const& x, exp_nonpositive<Real> const& weight,
                                              Real& peak, Real& total) {
        if constexpr (finite_at_candidates<X> && has_runs<X>) {
            exponentials_of_candidates(c, n, x, weight, peak, total);
        } else {
            peak = largest(c, n, x);
            // A chunk of minus infinities has no mass (and infinity - infinity is not a number); one that holds NaN has
            // a NaN sum.
            Real const base = peak == minus_infinity<Real> ? Real(0) : peak;
            auto const exponential = [weight, base](auto const& row, index_t i)
                                         MULTIDRAFT_INLINE_LAMBDA { return weight(row(i) - base); };
            total = sum(c, n, function_of<X, decltype(exponential), true>{x, exponential});
        }
    }

    template <class F, class Real>
    [[nodiscard]] MULTIDRAFT_HD static index_t first_equal(index_t begin, index_t end, F const& f, Real value) {
        F const here = in_chunk(f, begin, end);
        for (index_t i = begin; i < end; ++i)
            if (here(i) == value) return i;
        return none;
    }

    template <class Real, class W>
    [[nodiscard]] MULTIDRAFT_HD static Real sum_without(index_t c, index_t n, W const& w, span<token_id const> taken) {
        Real values[chunk_size];
        return sum_values(values, evaluate(c * chunk_size, n, w, taken, values));
    }

    template <class Real, class W>
    [[nodiscard]] MULTIDRAFT_HD static index_t find_in_chunk(index_t c, index_t n, W const& w,
                                                             span<token_id const> taken, double u) {
        Real values[chunk_size];
        index_t const found = descend(values, evaluate(c * chunk_size, n, w, taken, values), u);
        return found == none ? none : c * chunk_size + found;
    }

    /// The sum of one chunk in the fixed order. Rows of lanes that lie entirely inside the row need no bounds test.
    template <class F>
    MULTIDRAFT_HD MULTIDRAFT_OUTLINE static auto sum(index_t c, index_t n, F const& function) {
        using real = result_of<F>;
        index_t const begin = c * chunk_size;
        index_t const size = n - begin < chunk_size ? n - begin : chunk_size;
        F const f = in_chunk(function, begin, begin + size);
        index_t const rows = size / chunk_lanes;
        index_t const rest = size % chunk_lanes;
        real lane[chunk_lanes];
        for (index_t first = 0; first < chunk_lanes; first += block) {
            real acc[block];
            for (index_t l = 0; l < block; ++l) acc[l] = 0;
            for (index_t r = 0; r < rows; ++r) {
                index_t const at = begin + r * chunk_lanes + first;
                // Zeros do not change a sum.
                if constexpr (has_runs<F>) {
                    if (f.is_empty_run(at)) continue;
                } else {
                    if (!any_nonzero(f, at, block)) continue;
                }
                on_run(f, at, at + block, [&](auto const& here) MULTIDRAFT_INLINE_LAMBDA {
                    if constexpr (has_runs<F>)
                        if (!any_nonzero(here, at, block)) return;
                    for (index_t l = 0; l < block; ++l) acc[l] += here(at + l);
                });
            }
            for (index_t l = 0; l < block; ++l) lane[first + l] = acc[l];
        }
        index_t const last = begin + rows * chunk_lanes;
        by_runs(f, last, last + rest, [&](auto const& here, index_t first, index_t end) MULTIDRAFT_INLINE_LAMBDA {
            for (index_t l = first - last; l < end - last; ++l) lane[l] += here(last + l);
        });
        return pairwise_sum(lane, rows > 0 ? chunk_lanes : rest);
    }

    /// The largest entry of one chunk; minus infinity where all are NaN.
    template <class F>
    MULTIDRAFT_HD MULTIDRAFT_OUTLINE static auto largest(index_t c, index_t n, F const& function) {
        using real = result_of<F>;
        index_t const begin = c * chunk_size;
        index_t const size = n - begin < chunk_size ? n - begin : chunk_size;
        F const f = in_chunk(function, begin, begin + size);
        index_t const whole = size / block;
        real best[block];
        for (index_t l = 0; l < block; ++l) best[l] = minus_infinity<real>;
        for (index_t r = 0; r < whole; ++r) {
            index_t const at = begin + r * block;
            if constexpr (has_runs<F>)
                if (f.is_empty_run(at)) continue;  // minus infinities
            by_runs(f, at, at + block, [&](auto const& here, index_t, index_t) MULTIDRAFT_INLINE_LAMBDA {
                for (index_t l = 0; l < block; ++l) {
                    real const x = here(at + l);
                    best[l] = x > best[l] ? x : best[l];
                }
            });
        }
        by_runs(f, begin + whole * block, begin + size,
                [&](auto const& here, index_t first, index_t end) MULTIDRAFT_INLINE_LAMBDA {
                    for (index_t i = first; i < end; ++i) {
                        real const x = here(i);
                        best[0] = x > best[0] ? x : best[0];
                    }
                });
        for (index_t half = block / 2; half > 0; half /= 2)
            for (index_t l = 0; l < half; ++l) best[l] = best[l + half] > best[l] ? best[l + half] : best[l];
        return best[0];
    }

    /// All lanes but the first `used` are 0: these are not added.
    template <class Real>
    MULTIDRAFT_HD static Real pairwise_sum(Real (&lane)[chunk_lanes], index_t used = chunk_lanes) {
        for (index_t half = chunk_lanes / 2; half > 0; half /= 2) {
            if (half >= used) continue;
            for (index_t l = 0; l < half; ++l) lane[l] += lane[l + half];
        }
        return lane[0];
    }

    /// Whether a function may be nonzero anywhere in a run, by its `may_be_nonzero(i)` if that is cheap; true for other
    /// functions.
    template <class F>
    MULTIDRAFT_HD MULTIDRAFT_INLINE static bool any_nonzero(F const& f, index_t begin, index_t size) {
        if constexpr (has_may_be_nonzero<F>) {
            if (f.is_dense()) return true;
            std::uint32_t any = 0;
            for (index_t l = 0; l < size; ++l) any |= f.may_be_nonzero(begin + l) ? 1U : 0U;
            return any != 0;
        } else {
            return true;
        }
    }

private:
    /// `exponentials_of` where the other entries are minus infinity: their weights of 0 do not change a sum.
    template <class X, class Real>
    MULTIDRAFT_HD static void exponentials_of_candidates(index_t c, index_t n, X const& x,
                                                         exp_nonpositive<Real> const& weight, Real& peak, Real& total) {
        index_t const begin = c * chunk_size;
        index_t const size = n - begin < chunk_size ? n - begin : chunk_size;
        X const here = x.in_chunk(begin, begin + size);
        span<token_id const> const candidates = here.candidates();
        auto const logit = [&](std::size_t k) { return here.only(static_cast<index_t>(k))(candidates[k]); };
        peak = minus_infinity<Real>;
        for (std::size_t k = 0; k < candidates.size(); ++k) peak = logit(k) > peak ? logit(k) : peak;
        total = 0;
        if (candidates.size() == 0) return;
        Real const base = peak == minus_infinity<Real> ? Real(0) : peak;
        Real lane[chunk_lanes] = {};
        for (std::size_t k = 0; k < candidates.size(); ++k)
            lane[candidates[k] % chunk_lanes] += weight(logit(k) - base);
        total = pairwise_sum(lane, size < chunk_lanes ? size : chunk_lanes);
    }

    static constexpr index_t block = 64;  ///< lanes processed at a time: enough to hide the latency of an addition

    /// Calls `body` with the function, or with its cheaper form on a run.
    template <class F, class Body>
    MULTIDRAFT_HD MULTIDRAFT_INLINE static void on_run(F const& f, index_t begin, index_t end, Body const& body) {
        if constexpr (has_elsewhere<F>) {
            if (f.is_elsewhere(begin, end)) {
                of_run(f.elsewhere(), begin, end, body);
                return;
            }
        }
        of_run(f, begin, end, body);
    }

    /// The same for a function's form on a run, which is short; others are longer.
    template <class F, class Body>
    MULTIDRAFT_HD MULTIDRAFT_INLINE static void of_run(F const& f, index_t begin, index_t end, Body const& body) {
        if constexpr (has_runs<F>) {
            if (end - begin <= run_length) {
                f.on_run(begin, end, body);
                return;
            }
        }
        body(f);
    }

    /// The weights of the entries `first` to `end` of a chunk.
    template <class Real, class W>
    MULTIDRAFT_HD MULTIDRAFT_INLINE static void evaluate_run(index_t begin, index_t first, index_t end, W const& w,
                                                             Real (&values)[chunk_size]) {
        on_run(w, begin + first, begin + end, [&](auto const& here) MULTIDRAFT_INLINE_LAMBDA {
            for (index_t i = first; i < end; ++i) values[i] = here(begin + i);
        });
    }

    /// The weights of one chunk, 0 for tokens in `taken`, and 0 beyond the end of the row as far as its last row of
    /// lanes. Returns how many entries of the row the chunk has.
    template <class Real, class W>
    MULTIDRAFT_HD static index_t evaluate(index_t begin, index_t n, W const& function, span<token_id const> taken,
                                          Real (&values)[chunk_size]) {
        index_t const size = n - begin < chunk_size ? n - begin : chunk_size;
        W const w = in_chunk(function, begin, begin + size);
        if constexpr (has_runs<W>) {
            for (index_t i = 0; i < size; i += run_length) {
                index_t const end = i + run_length < size ? i + run_length : size;
                if (w.is_empty_run(begin + i))
                    for (index_t k = i; k < end; ++k) values[k] = 0;
                else
                    evaluate_run(begin, i, end, w, values);
            }
        } else if constexpr (has_may_be_nonzero<W>) {
            for (index_t i = 0; i < size; i += chunk_lanes) {
                index_t const end = i + chunk_lanes < size ? i + chunk_lanes : size;
                if (any_nonzero(w, begin + i, end - i))
                    evaluate_run(begin, i, end, w, values);
                else
                    for (index_t k = i; k < end; ++k) values[k] = 0;
            }
        } else if constexpr (has_elsewhere<W>) {
            for (index_t i = 0; i < size; i += chunk_lanes)
                evaluate_run(begin, i, i + chunk_lanes < size ? i + chunk_lanes : size, w, values);
        } else {
            evaluate_run(begin, 0, size, w, values);
        }
        for (index_t i = size; i < rows_of(size, chunk_lanes) * chunk_lanes; ++i) values[i] = 0;
        for (token_id const x : taken)
            if (x >= begin && x < begin + size) values[x - begin] = 0;
        return size;
    }

    /// Of 16 rows of so many lanes those that `size` terms begin, the first one always.
    MULTIDRAFT_HD static index_t rows_of(index_t size, index_t lanes) {
        index_t const rows = size > lanes ? (size + lanes - 1) / lanes : 1;
        return rows < 16 ? rows : 16;
    }

    template <class Real>
    MULTIDRAFT_HD static Real sum_values(Real const (&values)[chunk_size], index_t size) {
        Real lane[chunk_lanes];
        for (index_t l = 0; l < chunk_lanes; ++l) lane[l] = values[l];
        for (index_t r = 1; r < rows_of(size, chunk_lanes); ++r)
            for (index_t l = 0; l < chunk_lanes; ++l) lane[l] += values[r * chunk_lanes + l];
        return pairwise_sum(lane, size);
    }

    template <class Real>
    MULTIDRAFT_HD static Real sum_256(Real const* v, index_t size) {
        Real lane[16];
        for (index_t l = 0; l < 16; ++l) lane[l] = v[l];
        for (index_t r = 1; r < rows_of(size, 16); ++r)
            for (index_t l = 0; l < 16; ++l) lane[l] += v[r * 16 + l];
        return pairwise<adding, 16>(lane);
    }

    /// The term at the fraction u of the sum of a chunk that has `size` terms: 16 runs of 256 terms, 16 runs of 16, 16
    /// terms.
    template <class Real>
    MULTIDRAFT_HD static index_t descend(Real const (&values)[chunk_size], index_t size, double u) {
        static_assert(chunk_lanes == 256 && chunk_rows == 16);
        Real sums[16] = {};
        for (index_t k = 0; k < rows_of(size, 256); ++k) sums[k] = sum_256(values + k * 256, size - k * 256);
        index_t const a = choose_of_16(sums, u);
        if (a == none) return none;
        Real const* const run = values + a * 256;
        index_t const runs = rows_of(size - a * 256, 16);
        for (index_t k = 0; k < 16; ++k) sums[k] = k < runs ? pairwise<adding, 16>(run + k * 16) : Real(0);
        index_t const b = choose_of_16(sums, u);
        if (b == none) return none;
        index_t const c = choose_of_16(run + b * 16, u);
        return c == none ? none : a * 256 + b * 16 + c;
    }
};

}  // namespace MULTIDRAFT_NAMESPACE::detail
