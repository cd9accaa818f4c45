// The host group: one thread and its vector units; the reference that every other group must equal bit for bit.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/exp_log.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/chunk_folds.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/group/group_defaults.hpp"
#include "multidraft/group/host_chunk.hpp"
#include "multidraft/group/host_counters.hpp"
#include "multidraft/group/host_top_k.hpp"
#include "multidraft/group/runs.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// One thread that processes a row in explicit lanes, so that a compiler vectorises the loops without -ffast-math.
///
/// On the host a row of more than `max_row_size` entries is an `invalid_input`.
///
/// Stateless; any number may be used at once. Every operation is one pass over the row (`softmax` too: a chunk is read
/// twice while it is in the first-level cache), `inverse_cdf` and `update_chunk` touch one chunk. Nothing is allocated.
class host_group : public chunk_folds<host_group>, detail::host_chunk {
    using folds = chunk_folds<host_group>;
    friend folds;

public:
    using folds::argmax;
    using folds::count_part;
    using folds::counters;
    using folds::digit_bits;
    using folds::histogram_bin_reaching;
    using folds::histogram_total;
    using folds::inverse_cdf;
    using folds::max;
    using folds::softmax;
    using folds::sum;
    using folds::sum_chunks;
    using folds::throws;
    using folds::update_chunk;
    using group_defaults<host_group>::sums_from;
    using group_defaults<host_group>::sums_of_one;

    template <class Real>
    using chunk_sums_type = chunk_sums<Real>;

    /// Up to so many entries `top_k` is faster than a selection by counting.
    static constexpr index_t fast_top_k = most_listed;

    [[nodiscard]] MULTIDRAFT_HD bool leader() const noexcept { return true; }
    MULTIDRAFT_HD void barrier() const noexcept {}

    /// One pass, and a few sets of entries again (`detail::maxima_of_sets`); where more than `fast_top_k` entries are
    /// wanted, and in short rows, O(n + (entries that pass the threshold) * k). Of functions that have few finite
    /// entries only these are looked at.
    template <class F>
    MULTIDRAFT_HD void top_k(index_t n, F const& f, span<token_id> out) const {
        check_size(n);
        constexpr auto few = static_cast<std::size_t>(fast_top_k);
        if (out.size() == 0) return;
        if constexpr (finite_at_candidates<F>)
            if (out.size() <= few && detail::list_candidates<few>(f, out)) return;
        if (n > detail::maxima_of_sets::least_size && out.size() <= few &&
            detail::maxima_of_sets::list<few, false>(n, f, out))
            return;
        detail::top_k_in_turn::list(n, f, out);
    }

    template <class F>
    [[nodiscard]] MULTIDRAFT_HD bool top_k_of_logits(index_t n, F const& f, span<token_id> out) const {
        check_size(n);
        if (n > detail::maxima_of_sets::least_size)
            return detail::maxima_of_sets::list<static_cast<std::size_t>(fast_top_k), true>(n, f, out);
        bool numbers = true;
        for (index_t i = 0; i < n; ++i) numbers = numbers && f(i) <= largest_number<detail::result_of<F>>;
        if (!numbers) return false;
        detail::top_k_in_turn::list(n, f, out);
        return f(out[0]) > minus_infinity<detail::result_of<F>>;
    }

    template <class W>
    [[nodiscard]] MULTIDRAFT_HD auto sum_chunks_of(index_t n, W const& w, span<token_id const> list) const {
        using real = detail::result_of<W>;
        token_id ordered[static_cast<std::size_t>(fast_top_k)];
        auto const count = static_cast<index_t>(list.size());
        for (index_t k = 0; k < count; ++k) {
            index_t at = k;
            for (; at > 0 && ordered[at - 1] > list[static_cast<std::size_t>(k)]; --at) ordered[at] = ordered[at - 1];
            ordered[at] = list[static_cast<std::size_t>(k)];
        }
        chunk_sums<real> sums;
        for (index_t c = 0; c < kept_sums(n); ++c) sums.values[c] = 0;
        for (index_t k = 0; k < count;) {
            index_t const c = ordered[k] / chunk_size;
            real lane[chunk_lanes] = {};
            for (; k < count && ordered[k] / chunk_size == c; ++k) lane[ordered[k] % chunk_lanes] += w(ordered[k]);
            real const here = pairwise_sum(lane);
            if (c + sums.capacity >= chunks_of(n)) sums.values[c % sums.capacity] = here;  // as of the last windows
            sums.total += here;
        }
        return sums;
    }

    /// Two passes, which look for entries in runs of `run_length` first: most have none.
    template <class Is, class Number>
    [[nodiscard]] MULTIDRAFT_HD index_t nth(index_t n, Is const& is, Number const& number) const {
        check_size(n);
        std::uint64_t found = 0;
        find(n, is, largest_number<std::uint64_t>, found);
        if (found == 0) return none;
        std::uint64_t const wanted = number(found);
        found = 0;
        return find(n, is, wanted, found);
    }

    template <class Bin, class Mass>
    MULTIDRAFT_HD void histogram(index_t n, Bin const& bin, Mass const& mass, span<std::uint64_t> bins) const {
        check_size(n);
        detail::host_histogram::count(n, bin, mass, bins);
    }
    template <class F>
    MULTIDRAFT_HD void histogram_pairs(index_t n, F const& f, span<std::uint64_t> bins) const {
        check_size(n);
        detail::host_histogram::count_pairs(n, f, bins);
    }

private:
    /// Refuses rows whose loop counters would overflow.
    MULTIDRAFT_HD MULTIDRAFT_INLINE static void check_size([[maybe_unused]] index_t n) {
#if !MULTIDRAFT_ON_DEVICE
        if (n > max_row_size) refuse("n", n, "a row has at most 2^31 - 4097 entries");
#endif
    }

    /// Counts the entries that satisfy `is` up to the `wanted`-th, whose index it returns; `none` where there are
    /// fewer.
    template <class Is>
    MULTIDRAFT_HD static index_t find(index_t n, Is const& is, std::uint64_t wanted, std::uint64_t& found) {
        for (index_t begin = 0; begin < n; begin += run_length) {
            index_t const size = n - begin < run_length ? n - begin : run_length;
            if (size == run_length && !any_nonzero(is, begin, run_length)) continue;
            for (index_t i = begin; i < begin + size; ++i)
                if (is(i) && ++found == wanted) return i;
        }
        return none;
    }

    template <class Op, int, class F, class Real>
    MULTIDRAFT_HD static void fold_window(index_t first, index_t last, index_t n, F const& f, Real* out) {
        check_size(n);
        for (index_t c = first; c < last; ++c) out[c - first] = fold<Op>(c, n, f);
    }

    template <class X, class Real>
    MULTIDRAFT_HD static void exponentials(index_t first, index_t last, index_t n, X const& x,
                                           exp_nonpositive<Real> const& weight, Real* peaks, Real* sums) {
        check_size(n);
        for (index_t c = first; c < last; ++c) exponentials_of(c, n, x, weight, peaks[c - first], sums[c - first]);
    }
};

static_assert(group<host_group>);

}  // namespace MULTIDRAFT_NAMESPACE
