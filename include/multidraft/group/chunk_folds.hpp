// Row operations from the folds of a row's chunks: written once, over what the lanes of a group do with some chunks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/exp_log.hpp"
#include "multidraft/base/fma.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/choose_run.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/group/group_defaults.hpp"
#include "multidraft/group/runs.hpp"

namespace MULTIDRAFT_NAMESPACE {

namespace detail {

/// The fold of a sum.
struct adding {
    template <class Real>
    static constexpr Real start = Real(0);
    template <class Real>
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD static Real apply(Real a, Real b) noexcept {
        return a + b;
    }
};

/// The fold of a maximum. NaN is passed over.
struct larger {
    template <class Real>
    static constexpr Real start = minus_infinity<Real>;
    template <class Real>
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD static Real apply(Real a, Real b) noexcept {
        return b > a ? b : a;
    }
};

/// Folds a power of two of values, `step` apart, pairwise: v with v + half, for half = count / 2, .., 1.
template <class Op, index_t count, class Real>
[[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE Real pairwise(Real const* values, index_t step = 1) {
    Real v[static_cast<std::size_t>(count)];
    for (index_t l = 0; l < count; ++l) v[l] = values[l * step];
    for (index_t half = count / 2; half > 0; half /= 2)
        for (index_t l = 0; l < half; ++l) v[l] = Op::apply(v[l], v[l + half]);
    return v[0];
}

/// `total` and the sums of chunks, added in index order.
template <class Real>
[[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_OUTLINE Real sum_in_order(Real const* sums, index_t count, Real total) {
    for (index_t c = 0; c < count; ++c) total += sums[c];
    return total;
}

}  // namespace detail

/// A handle to chunk sums in memory that the lanes of a group share; each lane has the total. Not copied, since a copy
/// would not have sums of its own.
template <class Real>
struct shared_chunk_sums {
    Real* values = nullptr;
    Real total = 0;

    shared_chunk_sums() = default;
    /// As handles: what was moved from is not used again.
    shared_chunk_sums(shared_chunk_sums&&) = default;
    /// The same.
    shared_chunk_sums& operator=(shared_chunk_sums&&) = default;
    shared_chunk_sums(shared_chunk_sums const&) = delete;
    shared_chunk_sums& operator=(shared_chunk_sums const&) = delete;
    ~shared_chunk_sums() = default;
};

/// The operations of a group over whole rows. They go over a row by windows of as many chunks as `chunk_sums` keeps,
/// whose folds are combined in index order. A group derives from `chunk_folds<itself>`, makes it a friend, takes the
/// operations by a `using`, and has these members:
///
/// - `fold_window<Op, ahead>(first, last, n, f, out)`: out[k] is the fold of chunk first + k of f, in the fixed order.
///   On a device a lane reads `ahead` entries before it folds them.
/// - `exponentials(first, last, n, x, weight, peaks, sums)`: peaks[k] is the largest x of that chunk, and sums[k] the
///   sum of weight(x - peaks[k]); of weight(x) where the largest is minus infinity.
/// - `first_equal(begin, end, f, value)`: the lowest entry of a chunk with this value, for `argmax`; or `none`.
/// - `sum_without<Real>(c, n, w, taken)`: the sum of chunk c of w, which is 0 at the tokens taken.
/// - `find_in_chunk<Real>(c, n, w, taken, u)`: the entry of that chunk at the fraction u of its sum.
///
/// Every lane gets the whole result of each (of `sum_without`, sharer 0). The protected members below from `next_sums`
/// on are those of lanes that each have all the folds (`chunk_sums`); groups that keep them in shared memory
/// (`shared_chunk_sums`), or search together, have their own.
template <class Self>
class chunk_folds : public group_defaults<Self> {
protected:
    template <class F>
    [[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_OUTLINE auto sum(index_t n, F const& f) const {
        using real = detail::result_of<F>;
        real total = 0;
        index_t const chunks = chunks_of(n);
        for (index_t first = 0; first < chunks; first += capacity) {
            index_t const last = window_end(first, chunks);
            chunk_sums_of<Self, real> out;
            self().next_window(out);
            self().template fold_window<detail::adding, 16>(first, last, n, f, out.values);
            total = detail::sum_in_order(out.values, last - first, total);
        }
        return total;
    }

    template <class F>
    [[nodiscard]] MULTIDRAFT_HD auto max(index_t n, F const& f) const {
        using real = detail::result_of<F>;
        real best = minus_infinity<real>;
        index_t const chunks = chunks_of(n);
        for (index_t first = 0; first < chunks; first += capacity) {
            index_t const last = window_end(first, chunks);
            chunk_sums_of<Self, real> out;
            self().next_window(out);
            self().template fold_window<detail::larger, 16>(first, last, n, f, out.values);
            for (index_t k = 0; k < last - first; ++k) best = out.values[k] > best ? out.values[k] : best;
        }
        return best;
    }

    /// Looks for the largest chunk, then for the entry in it.
    template <class F>
    [[nodiscard]] MULTIDRAFT_HD index_t argmax(index_t n, F const& f) const {
        using real = detail::result_of<F>;
        if (n <= 0) return none;
        real best = minus_infinity<real>;
        index_t where = 0;
        index_t const chunks = chunks_of(n);
        for (index_t first = 0; first < chunks; first += capacity) {
            index_t const last = window_end(first, chunks);
            chunk_sums_of<Self, real> out;
            self().next_window(out);
            self().template fold_window<detail::larger, 16>(first, last, n, f, out.values);
            for (index_t k = 0; k < last - first; ++k) {
                if (!(out.values[k] > best)) continue;
                best = out.values[k];
                where = (first + k) * chunk_size;
            }
        }
        for (; where < n; where += chunk_size) {  // more than one chunk only where no entry is above minus infinity
            index_t const found = self().first_equal(where, n - where < chunk_size ? n : where + chunk_size, f, best);
            if (found != none) return found;
        }
        return 0;
    }

    template <class W>
    [[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_OUTLINE auto sum_chunks(index_t n, W const& w) const {
        using real = detail::result_of<W>;
        chunk_sums_of<Self, real> sums;
        index_t const chunks = chunks_of(n);
        for (index_t first = 0; first < chunks; first += capacity) {
            index_t const last = window_end(first, chunks);
            self().next_sums(sums);
            self().template fold_window<detail::adding, 32>(first, last, n, w, sums.values);
            sums.total = detail::sum_in_order(sums.values, last - first, sums.total);
        }
        return sums;
    }

    /// The sums of a chunk are taken relative to its own largest logit, and then scaled to that of all.
    template <class X, class Real = detail::result_of<X>>
    [[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_OUTLINE auto softmax(index_t n, X const& x, Real scale) const {
        constexpr Real nothing = minus_infinity<Real>;
        exp_nonpositive<Real> const weight(scale);
        softmax_sums<Real, chunk_sums_of<Self, Real>> result;
        result.largest = nothing;
        index_t const chunks = chunks_of(n);
        for (index_t first = 0; first < chunks; first += capacity) {
            index_t const last = window_end(first, chunks);
            chunk_sums_of<Self, Real> peaks;
            self().next_window(peaks);
            self().next_sums(result.sums);
            Real* const sums = result.sums.values;
            self().exponentials(first, last, n, x, weight, peaks.values, sums);
            index_t const count = last - first;
            Real const before = result.largest;
            Real const here = self().largest_of(peaks.values, count);
            result.largest = here > before ? here : before;
            for (index_t c = self().sharer(); c < count; c += self().sharers())
                if (peaks.values[c] != result.largest && peaks.values[c] != nothing)
                    sums[c] = fp::mul(sums[c], weight(peaks.values[c] - result.largest));
            self().meet();
            if (first > 0 && before < result.largest)
                result.sums.total = fp::mul(result.sums.total, weight(before - result.largest));
            result.sums.total = detail::sum_in_order(sums, count, result.sums.total);
        }
        return result;
    }

    template <class Sums, class W>
    [[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_OUTLINE index_t inverse_cdf(Sums const& sums, index_t n, W const& w,
                                                                       double u,
                                                                       span<token_id const> taken = {}) const {
        using real = std::decay_t<decltype(sums.total)>;
        index_t const chunks = chunks_of(n);
        index_t const c = chunks <= capacity ? self().choose_chunk(chunks, sums.values, u)
                                             : self().template choose_of_many<real>(chunks, n, w, taken, u);
        return c == none ? none : self().template find_in_chunk<real>(c, n, w, taken, u);
    }

    template <class Sums, class W>
    MULTIDRAFT_HD MULTIDRAFT_OUTLINE void update_chunk(Sums& sums, index_t n, W const& w, span<token_id const> taken,
                                                       index_t changed) const {
        using real = std::decay_t<decltype(sums.total)>;
        index_t const chunks = chunks_of(n);
        if (chunks > capacity) {
            sums.total = self().template total_without<real>(chunks, n, w, taken);
            return;
        }
        index_t const c = changed / chunk_size;
        real const here = self().template sum_without<real>(c, n, w, taken);
        if (self().sharer() == 0) sums.values[c] = here;
        self().meet();
        sums.total = detail::sum_in_order(sums.values, chunks, real(0));
    }

    /// Sums in shared memory, of a row of zeros with a 1. Where each lane has its own: as in `group_defaults`.
    template <class Real>
    [[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_OUTLINE auto sums_of_one(index_t n, index_t where) const {
        return sums_by<Real>(n, Real(1), [where](index_t c) MULTIDRAFT_INLINE_LAMBDA {
            return c == where / chunk_size ? Real(1) : Real(0);
        });
    }
    /// The same, of sums that were written before.
    template <class Real>
    [[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_OUTLINE auto sums_from(index_t n, Real const* values, Real total) const {
        return sums_by<Real>(n, total, [values](index_t c) MULTIDRAFT_INLINE_LAMBDA { return values[c]; });
    }

    /// Sets where the next chunk sums are written. Nothing to do where each lane has its own.
    template <class Sums>
    MULTIDRAFT_HD void next_sums(Sums& /*sums*/) const noexcept {}
    /// The same for folds of one window that are not kept.
    template <class Sums>
    MULTIDRAFT_HD void next_window(Sums& /*window*/) const noexcept {}
    /// Which of the lanes that share the sums this is.
    [[nodiscard]] MULTIDRAFT_HD index_t sharer() const noexcept { return 0; }
    /// How many they are.
    [[nodiscard]] MULTIDRAFT_HD index_t sharers() const noexcept { return 1; }
    /// Their barrier.
    MULTIDRAFT_HD void meet() const noexcept {}

    /// The largest of `count` values of a window; minus infinity where all are NaN.
    template <class Real>
    [[nodiscard]] MULTIDRAFT_HD Real largest_of(Real const* values, index_t count) const {
        Real best = minus_infinity<Real>;
        for (index_t c = 0; c < count; ++c) best = values[c] > best ? values[c] : best;
        return best;
    }
    /// `detail::choose_run` over the chunks of a row.
    template <class Real>
    [[nodiscard]] MULTIDRAFT_HD index_t choose_chunk(index_t chunks, Real const* sums, double& u) const {
        return detail::choose_run(
            chunks, [sums](index_t k) { return sums[k]; }, u);
    }
    /// The same where there are more chunks than are kept: their sums are computed again, twice.
    template <class Real, class W>
    [[nodiscard]] MULTIDRAFT_HD index_t choose_of_many(index_t chunks, index_t n, W const& w,
                                                       span<token_id const> taken, double& u) const {
        return detail::choose_run(
            chunks, [&](index_t c) { return self().template sum_without<Real>(c, n, w, taken); }, u);
    }
    /// The sum of a row of more chunks than are kept, without the tokens taken.
    template <class Real, class W>
    [[nodiscard]] MULTIDRAFT_HD Real total_without(index_t chunks, index_t n, W const& w,
                                                   span<token_id const> taken) const {
        Real total = 0;
        for (index_t c = 0; c < chunks; ++c) total += self().template sum_without<Real>(c, n, w, taken);
        return total;
    }

    /// The chunks of a window: as many as `chunk_sums` keeps.
    static constexpr index_t capacity = chunk_sums<float>::capacity;

    /// The chunk after the last one of a window.
    [[nodiscard]] MULTIDRAFT_HD static index_t window_end(index_t first, index_t chunks) noexcept {
        return chunks - first < capacity ? chunks : first + capacity;
    }

private:
    [[nodiscard]] MULTIDRAFT_HD Self const& self() const noexcept { return static_cast<Self const&>(*this); }

    /// Chunk sums that are known: `value(c)` is that of chunk c.
    template <class Real, class Value>
    [[nodiscard]] MULTIDRAFT_HD auto sums_by(index_t n, Real total, Value const& value) const {
        chunk_sums_of<Self, Real> sums;
        sums.total = total;
        self().next_sums(sums);
        self().meet();
        for (index_t c = self().sharer(); c < kept_sums(n); c += self().sharers()) sums.values[c] = value(c);
        self().barrier();  // no lane writes the next sums before all are done with these
        return sums;
    }
};

}  // namespace MULTIDRAFT_NAMESPACE
