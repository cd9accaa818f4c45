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

/// The chunk sums of a device group: in shared memory, complete in every rank. The total is kept by every thread. Not
/// copied, since a copy would not have sums of its own.
template <class Real>
struct shared_chunk_sums {
    Real* values = nullptr;
    Real total = 0;

    shared_chunk_sums() = default;
    /// The sums of all chunks, and the total.
    MULTIDRAFT_HD shared_chunk_sums(Real* of_chunks, Real of_all) noexcept : values(of_chunks), total(of_all) {}
    /// As handles: what was moved from is not used again.
    shared_chunk_sums(shared_chunk_sums&&) = default;
    /// The same.
    shared_chunk_sums& operator=(shared_chunk_sums&&) = default;
    shared_chunk_sums(shared_chunk_sums const&) = delete;
    shared_chunk_sums& operator=(shared_chunk_sums const&) = delete;
    ~shared_chunk_sums() = default;
};

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
    Real peaks[2][slots];
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

/// The type of a function's value at an index.
template <class F>
using result_of = std::decay_t<std::invoke_result_t<F const&, index_t>>;

/// Shared memory of the widest type as an array of Real.
template <class Real, class Widest>
[[nodiscard]] MULTIDRAFT_HD Real* as(Widest* p) noexcept {
    static_assert(sizeof(Real) <= sizeof(Widest), "multidraft: the group's storage is for narrower rows");
    return reinterpret_cast<Real*>(p);
}

/// The copy of a double buffer in shared memory whose turn it is.
template <class Real, class Widest, std::size_t N>
[[nodiscard]] MULTIDRAFT_HD Real* next(Widest (&copies)[2][N], unsigned& turn) noexcept {
    return as<Real>(copies[turn++ & 1U]);
}

}  // namespace detail

/// The threads of a group, and what its operations over a row have in common; see `simt_group` for the parameters.
template <lane_context Lanes, int Split, class Widest, int Wide>
class simt_threads {
    static_assert(Split == 1 || Split == 2 || Split == 4 || Split == 8);
    static_assert(Wide == 1 || Wide == 2 || Wide == 4 || Wide == 8);
    static_assert(Lanes::threads % (warp_size * Split) == 0, "multidraft: a rank has whole teams");

public:
    using storage = group_storage<Widest, static_cast<std::size_t>(Lanes::threads), static_cast<std::size_t>(Split)>;
    template <class Real>
    using chunk_sums_type = shared_chunk_sums<Real>;
    using lanes_type = Lanes;

    static constexpr bool throws = false;

    static constexpr int threads = Lanes::threads;
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

protected:
    /// Ranks may read each other's shared memory, may exchange through global memory, or either.
    static constexpr bool may_share = !exchanges_in_memory<Lanes> || exchanges_either_way<Lanes>;
    static constexpr bool may_use_memory = exchanges_in_memory<Lanes>;
    static constexpr auto own_lanes = static_cast<std::size_t>(own);
    static constexpr auto wide_lanes = static_cast<std::size_t>(wide);

    /// Whether they exchange through global memory. A constant, except in groups for either.
    [[nodiscard]] MULTIDRAFT_HD bool in_memory() const noexcept {
        if constexpr (exchanges_either_way<Lanes>)
            return lanes_.in_memory();
        else
            return may_use_memory;
    }

    [[nodiscard]] MULTIDRAFT_HD int lane() const noexcept { return lanes_.thread() % warp_size; }
    [[nodiscard]] MULTIDRAFT_HD int warp() const noexcept { return lanes_.thread() / warp_size; }

    [[nodiscard]] MULTIDRAFT_HD static index_t window_end(index_t first, index_t chunks) noexcept {
        return chunks - first < slots ? chunks : first + slots;
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

    template <class Real>
    [[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_OUTLINE static Real in_order(Real const* sums, index_t count, Real total) {
        for (index_t c = 0; c < count; ++c) total += sums[c];
        return total;
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
        for (index_t k = mine; k < whole; k += step) of_run(k);
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

    Lanes lanes_;
    storage* shared_;
};

}  // namespace MULTIDRAFT_NAMESPACE::cuda
