// The group of a Kokkos team on a CPU: each member is a thread with vector units and takes whole chunks of a row.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <cstddef>
#include <cstdint>

#include "multidraft/base/config.hpp"
#include "multidraft/base/exp_log.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/chunk_folds.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/group/group_defaults.hpp"
#include "multidraft/group/host_chunk.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/group/runs.hpp"
#include "multidraft/kokkos/team_members.hpp"

namespace MULTIDRAFT_NAMESPACE::kokkos {

/// The members of a team of CPU threads (Serial, OpenMP, Threads) as a `group`.
///
/// A chunk is summed by one member, with the host group's loops; the chunk sums are exchanged through the team's
/// scratch memory and added in index order by every member. Each member repeats operations on a single chunk
/// (`inverse_cdf`, `update_chunk`), which is cheaper than a barrier.
///
/// Output spans may be shared by all members or private to each: all write equal values.
template <class Member>
class thread_team_group : public detail::team_members<thread_team_group<Member>, Member, detail::team_board>,
                          multidraft::detail::host_chunk {
    using base = detail::team_members<thread_team_group<Member>, Member, detail::team_board>;
    using folds = chunk_folds<thread_team_group<Member>>;
    using defaults = group_defaults<thread_team_group<Member>>;
    friend base;
    friend folds;

public:
    using base::barrier;
    using base::base;
    using defaults::count_part;
    using defaults::counters;
    using defaults::digit_bits;
    using defaults::fast_top_k;
    using defaults::histogram_bin_reaching;
    using defaults::histogram_total;
    using defaults::nth;
    using defaults::sum_chunks_of;
    using defaults::sums_from;
    using defaults::sums_of_one;
    using defaults::top_k_of_logits;
    using folds::argmax;
    using folds::inverse_cdf;
    using folds::max;
    using folds::softmax;
    using folds::sum;
    using folds::sum_chunks;
    using folds::update_chunk;

    template <class Real>
    using chunk_sums_type = chunk_sums<Real>;

    template <class F>
    MULTIDRAFT_HD void top_k(index_t n, F const& f, span<token_id> out) const {
        if (size() == 1)
            host_group{}.top_k(n, f, out);
        else
            base::top_k(n, f, out);
    }

    /// Each member counts a part of the row and adds its counts to the team's bins.
    template <class Bin, class Mass>
    MULTIDRAFT_HD void histogram(index_t n, Bin const& bin, Mass const& mass, span<std::uint64_t> bins) const {
        if (size() == 1) return host_group{}.histogram(n, bin, mass, bins);
        count_parts(n, bins, [&](index_t begin, index_t length, index_t low, span<std::uint64_t> mine) {
            multidraft::detail::from_entry const part{bin, begin};
            host_group{}.histogram(length,
                                   function_of{part,
                                               [low](auto const& of, index_t i) MULTIDRAFT_INLINE_LAMBDA {
                                                   index_t const b = of(i);
                                                   return b < low ? none : b - low;
                                               }},
                                   multidraft::detail::from_entry{mass, begin}, mine);
        });
    }

    template <class F>
    MULTIDRAFT_HD void histogram_pairs(index_t n, F const& f, span<std::uint64_t> bins) const {
        if (size() == 1) return host_group{}.histogram_pairs(n, f, bins);
        count_parts(n, bins, [&](index_t begin, index_t length, index_t low, span<std::uint64_t> mine) {
            multidraft::detail::from_entry const part{f, begin};
            host_group{}.histogram_pairs(length,
                                         function_of{part,
                                                     [low](auto const& of, index_t i) MULTIDRAFT_INLINE_LAMBDA {
                                                         binned_pair here = of(i);
                                                         here.bin = here.bin < low / 2 ? none : here.bin - low / 2;
                                                         return here;
                                                     }},
                                         mine);
        });
    }

private:
    using base::board;
    using base::rank;
    using base::size;

    /// `count_mine(begin, length, low, mine)` counts a member's part of the row in the bins from `low` on.
    template <class CountPart>
    MULTIDRAFT_HD void count_parts(index_t n, span<std::uint64_t> bins, CountPart const& count_mine) const {
        index_t const chunks = chunks_of(n);
        auto const begin = static_cast<index_t>(std::int64_t{chunks} * rank() / size()) * chunk_size;
        auto const last = static_cast<index_t>(std::int64_t{chunks} * (rank() + 1) / size());
        index_t const end = last == chunks ? n : last * chunk_size;
        base::count_in_windows(bins, [&](index_t low, index_t here) {
            std::uint64_t mine[detail::team_board::most_bins];
            count_mine(begin, end - begin, low, span<std::uint64_t>(mine, static_cast<std::size_t>(here)));
            for (index_t b = 0; b < here; ++b)
                if (mine[b] != 0) Kokkos::atomic_add(&board().bins[b], mine[b]);
        });
    }

    /// Calls `of(c)` for this member's chunks, which writes to the board, and `take(k)` for all of them.
    template <class Of, class Take>
    MULTIDRAFT_HD void exchange_chunks(index_t first, index_t last, Of const& of, Take const& take) const {
        for (index_t c = first + rank(); c < last; c += size()) of(c);
        barrier();
        for (index_t k = 0; k < last - first; ++k) take(k);
        barrier();
    }

    template <class Op, int, class F, class Real>
    MULTIDRAFT_HD void fold_window(index_t first, index_t last, index_t n, F const& f, Real* out) const {
        Real* const all = base::template numbers<Real>(0);
        exchange_chunks(
            first, last, [&](index_t c) { all[c - first] = host_chunk::template fold<Op>(c, n, f); },
            [&](index_t k) { out[k] = all[k]; });
    }

    template <class X, class Real>
    MULTIDRAFT_HD void exponentials(index_t first, index_t last, index_t n, X const& x,
                                    exp_nonpositive<Real> const& weight, Real* peaks, Real* sums) const {
        Real* const all_peaks = base::template numbers<Real>(0);
        Real* const all_sums = base::template numbers<Real>(1);
        exchange_chunks(
            first, last,
            [&](index_t c) { host_chunk::exponentials_of(c, n, x, weight, all_peaks[c - first], all_sums[c - first]); },
            [&](index_t k) {
                peaks[k] = all_peaks[k];
                sums[k] = all_sums[k];
            });
    }

    /// Keys are computed in a loop of their own, which compilers vectorise.
    template <class EndOf, class F, class Real>
    MULTIDRAFT_HD void best_of_runs(index_t runs, EndOf const& end_of, index_t run, F const& function,
                                    Real* best_keys) const {
        F const f = function;
        for (index_t r = rank(); r < runs; r += size()) {
            detail::chosen<Real> best;
            Real keys[chunk_lanes];
            for (index_t at = r * run; at < end_of(r); at += chunk_lanes) {
                index_t const count = end_of(r) - at < chunk_lanes ? end_of(r) - at : chunk_lanes;
                for (index_t l = 0; l < count; ++l) keys[l] = f(at + l);
                for (index_t l = 0; l < count; ++l)
                    if (best.index == none || keys[l] > best.key) best = {keys[l], at + l};
            }
            base::set(best_keys, board().run_index, r, best);
        }
        barrier();
    }

    /// The best of `of(v)` for v < 256, by every member. Ends with a barrier.
    template <class Real, class Of>
    [[nodiscard]] MULTIDRAFT_HD detail::chosen<Real> best_of_256(Of const& of) const {
        detail::chosen<Real> best;
        for (index_t v = 0; v < 256; ++v)
            if (detail::chosen<Real> const here = of(v); here.index != none && here.before(best)) best = here;
        barrier();
        return best;
    }
};

}  // namespace MULTIDRAFT_NAMESPACE::kokkos
