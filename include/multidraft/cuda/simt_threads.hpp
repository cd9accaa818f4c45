// The threads of a CUDA group, their shared memory, and the distribution of a row's entries and chunks over them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/cuda/lane_context.hpp"
#include "multidraft/group/group.hpp"

namespace MULTIDRAFT_NAMESPACE::cuda {

/// The shared memory of a group, one object per rank. `Real` is the widest type of its rows.
template <class Real, std::size_t Threads, std::size_t Split>
struct group_storage {
    static constexpr std::size_t slots = chunk_sums<Real>::capacity;
    static constexpr std::size_t warps = Threads / warp_size;
    static constexpr std::size_t counters_size = 2048;
    static constexpr std::size_t count_capacity =
        chunk_size * sizeof(Real) / 8;  ///< bins that `histogram` counts at once

    // Whatever ranks or warps write for each other is double-buffered. An operation then needs one barrier: a thread
    // that is an operation ahead writes the other copy.
    Real row_sums[2][slots];
    Real temporary[2][slots];
    Real best[2][std::size_t(max_ranks) * warps];
    index_t best_index[2][std::size_t(max_ranks) * warps];
    Real partial[2][Split > 1 ? Threads * 8 / Split / Split*(Split - 1) : 1];
    Real team_peak[2][warps];
    Real runs[16];
    index_t found[2];
    alignas(16) unsigned char scratch[chunk_size * sizeof(Real)];  ///< a chunk's weights, lists of the largest, bins
    std::uint64_t counters[counters_size];
};

namespace detail {

/// Shared memory of the widest type as an array of Real.
template <class Real, class Widest>
[[nodiscard]] MULTIDRAFT_HD Real* as(Widest* p) noexcept {
    static_assert(sizeof(Real) <= sizeof(Widest), "multidraft: the group's storage is for narrower rows");
    return reinterpret_cast<Real*>(p);
}

/// The threads of a group, their double buffers, and how a row is distributed over them: what the passes over a row
/// (simt_sums.hpp and those beside it) are written in terms of. See `simt_group` for the parameters.
template <lane_context Lanes, int Split, class Widest, int Wide>
class simt_threads {
    static_assert(Split == 1 || Split == 2 || Split == 4 || Split == 8);
    static_assert(Wide == 1 || Wide == 2 || Wide == 4 || Wide == 8);
    static_assert(Lanes::threads % (warp_size * Split) == 0, "multidraft: a rank has whole teams");

public:
    using storage = group_storage<Widest, static_cast<std::size_t>(Lanes::threads), static_cast<std::size_t>(Split)>;
    using lanes_type = Lanes;
    using widest = Widest;

    static constexpr int threads = Lanes::threads;
    static constexpr int split = Split;
    static constexpr int warps = threads / warp_size;
    static constexpr int teams = warps / Split;
    static constexpr int own = 8 / Split;                 ///< adjacent lanes of the fixed order per thread
    static constexpr int wide = Wide > own ? Wide : own;  ///< adjacent entries that it reads at a time
    static constexpr index_t slots = chunk_sums<Widest>::capacity;

    MULTIDRAFT_HD simt_threads(Lanes lanes, storage& shared) noexcept : lanes_(lanes), shared_(&shared) {
        lanes_.sync_all();  // a rank must have started before others write to it
    }

    [[nodiscard]] MULTIDRAFT_HD bool leader() const noexcept { return lanes_.rank() == 0 && lanes_.thread() == 0; }
    MULTIDRAFT_HD void barrier() const { lanes_.sync_all(); }
    /// Prefetches bytes into the L2 cache, a line per thread at a time. Does not wait.
    MULTIDRAFT_HD void prefetch([[maybe_unused]] void const* data, [[maybe_unused]] std::int64_t bytes) const {
#if defined(__CUDA_ARCH__)
        constexpr std::int64_t line = 128;
        std::int64_t const first = line * (lanes_.rank() * threads + lanes_.thread());
        std::int64_t const step = line * lanes_.ranks() * threads;
        MULTIDRAFT_ROLL
        for (std::int64_t at = first; at < bytes; at += step)
            asm volatile("prefetch.global.L2 [%0];" ::"l"(static_cast<char const*>(data) + at));
#endif
    }
    [[nodiscard]] MULTIDRAFT_HD Lanes const& lanes() const noexcept { return lanes_; }
    [[nodiscard]] MULTIDRAFT_HD storage& shared() const noexcept { return *shared_; }

    /// Ranks may read each other's shared memory, may exchange through global memory, or either.
    static constexpr bool may_share = Lanes::exchange != rank_exchange::global_memory;
    static constexpr bool may_use_memory = Lanes::exchange != rank_exchange::shared_memory;
    static constexpr auto own_lanes = static_cast<std::size_t>(own);
    static constexpr auto wide_lanes = static_cast<std::size_t>(wide);
    static constexpr int rows_at_once = wide / own;  ///< rows of a chunk that a warp reads at once
    static constexpr int threads_a_row = warp_size / rows_at_once;
    static constexpr index_t runs_a_row = chunk_lanes / wide;            ///< runs of `wide` entries
    static constexpr index_t reading_step = chunk_lanes * rows_at_once;  ///< entries from one reading to the next
    static constexpr auto readings = static_cast<std::size_t>(chunk_size / reading_step);  ///< of a whole chunk

    /// Whether they exchange through global memory. A constant, except in groups for either.
    [[nodiscard]] MULTIDRAFT_HD bool in_memory() const noexcept {
        if constexpr (Lanes::exchange == rank_exchange::either)
            return lanes_.in_memory();
        else
            return may_use_memory;
    }

    [[nodiscard]] MULTIDRAFT_HD int lane() const noexcept { return lanes_.thread() % warp_size; }
    [[nodiscard]] MULTIDRAFT_HD int warp() const noexcept { return lanes_.thread() / warp_size; }

    [[nodiscard]] MULTIDRAFT_HD static index_t window_end(index_t first, index_t chunks) noexcept {
        return chunks - first < slots ? chunks : first + slots;
    }

    /// The copy of a double buffer whose turn it is: of chunk sums, and of folds that are not kept.
    template <class Real>
    [[nodiscard]] MULTIDRAFT_HD Real* next_row_sums() const noexcept {
        return as<Real>(shared_->row_sums[row_sums_turn_++ & 1U]);
    }
    template <class Real>
    [[nodiscard]] MULTIDRAFT_HD Real* next_temporary() const noexcept {
        return as<Real>(shared_->temporary[temporary_turn_++ & 1U]);
    }
    /// Of what the warps of a team exchange: their sums, and their largest entries.
    template <class Real>
    [[nodiscard]] MULTIDRAFT_HD Real* next_partial() const noexcept {
        return as<Real>(shared_->partial[partial_turn_++ & 1U]);
    }
    template <class Real>
    [[nodiscard]] MULTIDRAFT_HD Real* next_team_peak() const noexcept {
        return as<Real>(shared_->team_peak[peak_turn_++ & 1U]);
    }
    /// Of the best entries of all warps; `indices` becomes that of their indices.
    template <class Real>
    [[nodiscard]] MULTIDRAFT_HD Real* next_best(index_t*& indices) const noexcept {
        unsigned const turn = best_turn_++ & 1U;
        indices = shared_->best_index[turn];
        return as<Real>(shared_->best[turn]);
    }
    /// Of the counters of all ranks in global memory; on return `other` is the other one.
    [[nodiscard]] MULTIDRAFT_HD std::uint64_t* next_accumulators(std::uint64_t*& other) const noexcept {
        std::uint64_t* const all = lanes_.accumulators(count_turn_ & 1U);
        other = lanes_.accumulators(++count_turn_ & 1U);
        return all;
    }

    /// Writes a value that all threads of a warp have to the same place in every rank's shared memory.
    template <class T>
    MULTIDRAFT_HD void push(T* at, index_t k, T value) const {
        if constexpr (may_use_memory)
            if (in_memory() && lane() == 0) *lanes_.mirror(at + k) = value;
        if constexpr (may_share)
            if (!in_memory() && lane() < lanes_.ranks()) *lanes_.at_rank(at + k, lane()) = value;
    }

    /// After a barrier: makes what was pushed to `at .. at + count` available in this rank's shared memory.
    template <class T>
    MULTIDRAFT_HD void collect([[maybe_unused]] T* at, [[maybe_unused]] index_t count) const {
        if constexpr (may_use_memory) {
            if (!in_memory()) return;
            MULTIDRAFT_ROLL
            for (index_t k = lanes_.thread(); k < count; k += threads) at[k] = *lanes_.mirror(at + k);
            lanes_.sync();
        }
    }

    /// Entry j of a run. Written as `|` so that the compiler joins the loads of adjacent entries.
    [[nodiscard]] MULTIDRAFT_HD static constexpr index_t entry_of(index_t run, index_t j) noexcept {
        return wide * run | j;
    }

    /// Calls `body(j, j < left)` for j < `wide`. For a whole run the second argument is a constant, so that the loads
    /// in the body can be joined.
    template <class Body>
    MULTIDRAFT_HD MULTIDRAFT_INLINE void for_adjacent_of(index_t left, Body const& body) const {
        if (left >= wide) {
            MULTIDRAFT_UNROLL
            for (int j = 0; j < wide; ++j) body(j, true);
        } else {
            MULTIDRAFT_UNROLL
            for (int j = 0; j < wide; ++j) body(j, j < left);
        }
    }

    /// Calls `of_run(run)` for this thread's whole runs of `wide` adjacent entries of a row of n, and `of_entry(i)` for
    /// its entries after them. The order does not matter.
    template <class OfRun, class OfEntry>
    MULTIDRAFT_HD void for_runs(index_t n, OfRun const& of_run, OfEntry const& of_entry) const {
        index_t const whole = n / wide;
        index_t const mine = static_cast<index_t>(lanes_.rank() * threads + lanes_.thread());
        index_t const step = static_cast<index_t>(threads * lanes_.ranks());
        MULTIDRAFT_ROLL
        for (index_t k = mine; k < whole; k += step) {
            of_run(k);
            // Single entries of the largest rows are so many that the next index could exceed its type.
            if constexpr (wide == 1)
                if (whole - k <= step) break;
        }
        if (mine < n % wide) of_entry(wide * whole + mine);
    }

    /// Calls `body(i)` for this thread's entries, in runs of `wide` adjacent ones.
    template <class Body>
    MULTIDRAFT_HD void for_adjacent(index_t n, Body const& body) const {
        for_runs(
            n,
            [&](index_t run) MULTIDRAFT_INLINE_LAMBDA {
                MULTIDRAFT_UNROLL
                for (int j = 0; j < wide; ++j) body(entry_of(run, j));
            },
            body);
    }

    /// Calls `body(c, c < last)` for this team's chunks; with several warps per team equally often on all threads, so
    /// that the body may contain barriers.
    template <class Body>
    MULTIDRAFT_HD void for_chunks(index_t first, index_t last, Body const& body) const {
        index_t const step = static_cast<index_t>(teams * lanes_.ranks());
        index_t const mine = static_cast<index_t>(warp() / Split * lanes_.ranks() + lanes_.rank());
        for (index_t c = first; c < last; c += step) {
            bool const active = mine < last - c;
            // A team of one warp has no barriers.
            if (Split > 1 || active) body(c + mine, active);
        }
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

    /// The larger of two numbers; b if a is NaN.
    template <class Real>
    [[nodiscard]] MULTIDRAFT_HD static Real larger(Real a, Real b) noexcept {
#if defined(__CUDA_ARCH__)
        return max(a, b);  // one instruction
#else
        return a > b ? a : b;
#endif
    }

    template <class Real>
    [[nodiscard]] MULTIDRAFT_HD Real warp_largest(Real best) const {
        MULTIDRAFT_UNROLL
        for (int bit = warp_size / 2; bit > 0; bit /= 2) {
            Real const other = lanes_.shuffle_xor(best, bit);
            best = other > best ? other : best;
        }
        return best;
    }

    [[nodiscard]] MULTIDRAFT_HD static int leading_zeros(std::uint32_t bits) noexcept {
#if defined(__CUDA_ARCH__)
        return __clz(static_cast<int>(bits));
#else
        return __builtin_clz(bits);
#endif
    }

    [[nodiscard]] MULTIDRAFT_HD static int lowest_bit(std::uint32_t bits) noexcept {
#if defined(__CUDA_ARCH__)
        return __ffs(static_cast<int>(bits)) - 1;
#else
        return __builtin_ctz(bits);
#endif
    }

    [[nodiscard]] MULTIDRAFT_HD static int bits_set(std::uint32_t bits) noexcept {
#if defined(__CUDA_ARCH__)
        return __popc(bits);
#else
        return __builtin_popcount(bits);
#endif
    }

private:
    struct no_turn {};

    Lanes lanes_;
    storage* shared_;
    [[no_unique_address]] mutable std::conditional_t<may_use_memory, unsigned, no_turn> count_turn_{};
    mutable unsigned row_sums_turn_ = 0;
    mutable unsigned temporary_turn_ = 0;
    mutable unsigned partial_turn_ = 0;
    mutable unsigned peak_turn_ = 0;
    mutable unsigned best_turn_ = 0;
};

}  // namespace detail

}  // namespace MULTIDRAFT_NAMESPACE::cuda
