// The group of a Kokkos team on a CPU: each member is a thread with vector units and takes whole chunks of a row.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/exp_log.hpp"
#include "multidraft/base/fma.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/group/group_defaults.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/kokkos/chosen.hpp"

namespace MULTIDRAFT_NAMESPACE::kokkos {

/// The members of a team of CPU threads (Serial, OpenMP, Threads) as a `group`.
///
/// A chunk is summed by one member, with the host group's loops; the chunk sums are exchanged through the team's
/// scratch memory and added in index order by every member. Each member repeats operations on a single chunk
/// (`inverse_cdf`, `update_chunk`), which is cheaper than a barrier. A team of one member is the host group itself.
///
/// Output spans may be shared by all members or private to each: all write equal values.
template <class Member>
class thread_team_group : public group_defaults<thread_team_group<Member>> {
public:
    using group_defaults<thread_team_group<Member>>::count_part;
    using group_defaults<thread_team_group<Member>>::counters;
    using group_defaults<thread_team_group<Member>>::digit_bits;
    using group_defaults<thread_team_group<Member>>::fast_top_k;
    using group_defaults<thread_team_group<Member>>::histogram_bin_reaching;
    using group_defaults<thread_team_group<Member>>::histogram_total;
    using group_defaults<thread_team_group<Member>>::nth;
    using group_defaults<thread_team_group<Member>>::sum_chunks_of;
    using group_defaults<thread_team_group<Member>>::sums_from;
    using group_defaults<thread_team_group<Member>>::top_k_of_logits;

    static constexpr bool throws = false;

    template <class Real>
    using chunk_sums_type = chunk_sums<Real>;

    /// Bytes of team scratch (level 0) that a launch needs for one group.
    [[nodiscard]] static constexpr std::size_t scratch_bytes() noexcept { return sizeof(board); }

    /// Takes its scratch from the member's team; all members must construct it at the same point. The member must
    /// outlive it.
    MULTIDRAFT_HD explicit thread_team_group(Member const& member)
        : member_(&member),
          board_(static_cast<board*>(
              member.team_scratch(0).get_shmem_aligned(sizeof(board), static_cast<std::ptrdiff_t>(alignof(board))))) {}

    [[nodiscard]] MULTIDRAFT_HD bool leader() const { return member_->team_rank() == 0; }
    MULTIDRAFT_HD void barrier() const { member_->team_barrier(); }

    template <class F>
    [[nodiscard]] MULTIDRAFT_HD auto sum(index_t n, F const& f) const {
        using real = result_of<F>;
        if (alone()) return host_group{}.sum(n, f);
        real total = 0;
        each_chunk<real>(
            n,
            [&](index_t begin, index_t size) {
                return host_group{}.sum(size, shifted<F>{f, begin});
            },
            [&](index_t, real here) { total += here; });
        return total;
    }

    template <class F>
    [[nodiscard]] MULTIDRAFT_HD auto max(index_t n, F const& f) const {
        using real = result_of<F>;
        if (alone()) return host_group{}.max(n, f);
        real best = minus_infinity<real>;
        each_chunk<real>(
            n,
            [&](index_t begin, index_t size) {
                return host_group{}.max(size, shifted<F>{f, begin});
            },
            [&](index_t, real here) { best = here > best ? here : best; });
        return best;
    }

    template <class F>
    [[nodiscard]] MULTIDRAFT_HD index_t argmax(index_t n, F const& f) const {
        using real = result_of<F>;
        if (alone()) return host_group{}.argmax(n, f);
        if (n <= 0) return none;
        real best = minus_infinity<real>;
        index_t where = 0;
        each_chunk<real>(
            n,
            [&](index_t begin, index_t size) {
                return host_group{}.max(size, shifted<F>{f, begin});
            },
            [&](index_t c, real here) {
                if (here > best) {
                    best = here;
                    where = c * chunk_size;
                }
            });
        while (where < n && !(f(where) == best)) ++where;
        return where < n ? where : 0;
    }

    /// One pass finds the largest key of each of at most 256 runs; then the run of each of the `out.size()` winners is
    /// read once more.
    template <class F>
    MULTIDRAFT_HD void top_k(index_t n, F const& f, span<token_id> out) const {
        using real = result_of<F>;
        if (alone()) return host_group{}.top_k(n, f, out);
        if (out.empty()) return;
        index_t const run = run_length(n);
        index_t const runs = n > 0 ? (n - 1) / run + 1 : 0;
        real* const keys = numbers<real>(0);
        for (index_t r = rank(); r < runs; r += size()) {
            auto const best = best_of_run<real>(r * run, run_end(r, run, n), f, {});
            keys[r] = best.key;
            board_->where[r] = best.index;
        }
        member_->team_barrier();
        chosen<real> best[most_runs];
        for (index_t r = 0; r < runs; ++r) best[r] = {keys[r], board_->where[r]};
        member_->team_barrier();
        for (token_id& winner : out) {
            index_t from = none;
            for (index_t r = 0; r < runs; ++r)
                if (best[r].index != none && (from == none || best[r].key > best[from].key)) from = r;
            winner = from == none ? none : best[from].index;
            if (from != none) best[from] = best_of_run<real>(from * run, run_end(from, run, n), f, best[from]);
        }
    }

    template <class W>
    [[nodiscard]] MULTIDRAFT_HD auto sum_chunks(index_t n, W const& w) const {
        using real = result_of<W>;
        if (alone()) return host_group{}.sum_chunks(n, w);
        chunk_sums<real> sums;
        each_chunk<real>(
            n,
            [&](index_t begin, index_t size) {
                return host_group{}.sum(size, shifted<W>{w, begin});
            },
            [&](index_t c, real here) {
                if (c < sums.capacity) sums.values[c] = here;
                sums.total += here;
            });
        return sums;
    }

    template <class Real>
    [[nodiscard]] MULTIDRAFT_HD chunk_sums<Real> sums_of_one(index_t n, index_t where) const noexcept {
        return host_group{}.template sums_of_one<Real>(n, where);
    }

    template <class X, class Real = std::decay_t<std::invoke_result_t<X const&, index_t>>>
    [[nodiscard]] MULTIDRAFT_HD softmax_sums<Real> softmax(index_t n, X const& x, Real scale) const {
        if (alone()) return host_group{}.softmax(n, x, scale);
        constexpr Real nothing = minus_infinity<Real>;
        exp_nonpositive<Real> const weight(scale);
        softmax_sums<Real> result;
        result.largest = nothing;
        Real* const sums = numbers<Real>(0);
        Real* const peaks = numbers<Real>(1);
        index_t const chunks = chunks_of(n);
        for (index_t first = 0; first < chunks; first += capacity) {
            index_t const last = chunks - first < capacity ? chunks : first + capacity;
            for (index_t c = first + rank(); c < last; c += size()) {
                index_t const begin = c * chunk_size;
                index_t const length = n - begin < chunk_size ? n - begin : chunk_size;
                Real const here = host_group{}.max(length, shifted<X>{x, begin});
                Real const base = here == nothing ? Real(0) : here;
                peaks[c - first] = here;
                sums[c - first] = host_group{}.sum(
                    length, [=, &x](index_t i) MULTIDRAFT_INLINE_LAMBDA { return weight(x(begin + i) - base); });
            }
            member_->team_barrier();
            Real const before = result.largest;
            for (index_t c = first; c < last; ++c)
                result.largest = peaks[c - first] > result.largest ? peaks[c - first] : result.largest;
            if (first > 0 && before < result.largest)
                result.sums.total = fp::mul(result.sums.total, weight(before - result.largest));
            for (index_t c = first; c < last; ++c) {
                Real const peak = peaks[c - first];
                Real here = sums[c - first];
                if (peak != result.largest && peak != nothing) here = fp::mul(here, weight(peak - result.largest));
                result.sums.values[c - first] = here;
                result.sums.total += here;
            }
            member_->team_barrier();
        }
        return result;
    }

    template <class Real, class W>
    [[nodiscard]] MULTIDRAFT_HD index_t inverse_cdf(chunk_sums<Real> const& sums, index_t n, W const& w, double u,
                                                    span<token_id const> taken = {}) const {
        return host_group{}.inverse_cdf(sums, n, w, u, taken);
    }

    template <class Real, class W>
    MULTIDRAFT_HD void update_chunk(chunk_sums<Real>& sums, index_t n, W const& w, span<token_id const> taken,
                                    index_t changed) const {
        host_group{}.update_chunk(sums, n, w, taken, changed);
    }

    /// Each member counts a part of the row and adds its counts to the team's bins, 2048 at a time.
    template <class Bin, class Mass>
    MULTIDRAFT_HD void histogram(index_t n, Bin const& bin, Mass const& mass, span<std::uint64_t> bins) const {
        if (alone()) return host_group{}.histogram(n, bin, mass, bins);
        count_parts(n, bins, [&](index_t begin, index_t end, index_t low, span<std::uint64_t> mine) {
            host_group{}.histogram(
                end - begin,
                [&bin, begin, low](index_t i) MULTIDRAFT_INLINE_LAMBDA {
                    index_t const b = bin(begin + i);
                    return b < low ? none : b - low;
                },
                shifted<Mass>{mass, begin}, mine);
        });
    }

    template <class F>
    MULTIDRAFT_HD void histogram_pairs(index_t n, F const& f, span<std::uint64_t> bins) const {
        if (alone()) return host_group{}.histogram_pairs(n, f, bins);
        count_parts(n, bins, [&](index_t begin, index_t end, index_t low, span<std::uint64_t> mine) {
            host_group{}.histogram_pairs(
                end - begin,
                [f, begin, low](index_t i) MULTIDRAFT_INLINE_LAMBDA {
                    binned_pair here = f(begin + i);
                    here.bin = here.bin < low / 2 ? none : here.bin - low / 2;
                    return here;
                },
                mine);
        });
    }

private:
    template <class F>
    using result_of = std::decay_t<std::invoke_result_t<F const&, index_t>>;

    static constexpr index_t capacity = chunk_sums<float>::capacity;
    static constexpr index_t most_runs = 256;
    static constexpr index_t most_bins = 2048;

    /// `count_mine(begin, end, low, mine)` counts a member's part of the row in the bins from `low` on.
    template <class CountPart>
    MULTIDRAFT_HD void count_parts(index_t n, span<std::uint64_t> bins, CountPart const& count_mine) const {
        auto const all = static_cast<index_t>(bins.size());
        auto const begin = static_cast<index_t>(std::int64_t{n} * rank() / size());
        auto const end = static_cast<index_t>(std::int64_t{n} * (rank() + 1) / size());
        std::uint64_t mine[most_bins];
        for (index_t low = 0; low < all; low += most_bins) {
            index_t const here = all - low < most_bins ? all - low : most_bins;
            count_mine(begin, end, low, span<std::uint64_t>(mine, static_cast<std::size_t>(here)));
            for (index_t b = rank(); b < here; b += size()) board_->bins[b] = 0;
            member_->team_barrier();
            for (index_t b = 0; b < here; ++b)
                if (mine[b] != 0) Kokkos::atomic_add(&board_->bins[b], mine[b]);
            member_->team_barrier();
            for (index_t b = 0; b < here; ++b) bins[low + b] = board_->bins[b];
            member_->team_barrier();
        }
    }

    /// The data that members exchange.
    struct board {
        double numbers[2][capacity];
        std::uint64_t bins[most_bins];
        index_t where[most_runs];
    };

    /// f from `begin` on.
    template <class F>
    struct shifted {
        F f;
        index_t begin;
        [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD auto operator()(index_t i) const { return f(begin + i); }
    };

    [[nodiscard]] MULTIDRAFT_HD index_t rank() const { return member_->team_rank(); }
    [[nodiscard]] MULTIDRAFT_HD index_t size() const { return member_->team_size(); }
    [[nodiscard]] MULTIDRAFT_HD bool alone() const { return member_->team_size() == 1; }

    template <class Real>
    [[nodiscard]] MULTIDRAFT_HD Real* numbers(int which) const {
        static_assert(sizeof(Real) <= sizeof(double));
        return reinterpret_cast<Real*>(board_->numbers[which]);
    }

    /// `of(begin, size)` of every chunk, each by one member; then `fold(chunk, result)` in index order, by all.
    template <class Real, class Of, class Fold>
    MULTIDRAFT_HD void each_chunk(index_t n, Of const& of, Fold const& fold) const {
        Real* const results = numbers<Real>(0);
        index_t const chunks = chunks_of(n);
        for (index_t first = 0; first < chunks; first += capacity) {
            index_t const last = chunks - first < capacity ? chunks : first + capacity;
            for (index_t c = first + rank(); c < last; c += size()) {
                index_t const begin = c * chunk_size;
                results[c - first] = of(begin, n - begin < chunk_size ? n - begin : chunk_size);
            }
            member_->team_barrier();
            for (index_t c = first; c < last; ++c) fold(c, results[c - first]);
            member_->team_barrier();
        }
    }

    [[nodiscard]] MULTIDRAFT_HD static index_t run_length(index_t n) {
        index_t const even = n / most_runs + (n % most_runs != 0 ? 1 : 0);
        return even < chunk_lanes ? chunk_lanes : even;
    }
    [[nodiscard]] MULTIDRAFT_HD static index_t run_end(index_t r, index_t run, index_t n) {
        return n - r * run < run ? n : (r + 1) * run;
    }

    /// The best entry of a run that comes after `past`, which may be empty.
    template <class Real, class F>
    [[nodiscard]] MULTIDRAFT_HD static chosen<Real> best_of_run(index_t begin, index_t end, F const& function,
                                                                chosen<Real> past) {
        F const f = function;
        chosen<Real> best;
        Real keys[chunk_lanes];
        for (index_t at = begin; at < end; at += chunk_lanes) {
            index_t const count = end - at < chunk_lanes ? end - at : chunk_lanes;
            for (index_t l = 0; l < count; ++l) keys[l] = f(at + l);
            for (index_t l = 0; l < count; ++l) {
                chosen<Real> const here{keys[l], at + l};
                if (here.before(best) && past.before(here)) best = here;
            }
        }
        return best;
    }

    Member const* member_;
    board* board_;
};

}  // namespace MULTIDRAFT_NAMESPACE::kokkos
