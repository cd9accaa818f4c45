// Histograms of a row's entries by a CUDA group, and the steps of a radix descent over their counters.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/cuda/lane_context.hpp"
#include "multidraft/cuda/simt_threads.hpp"
#include "multidraft/group/group.hpp"

namespace MULTIDRAFT_NAMESPACE::cuda::detail {

/// The sum of all counters, given as a span or anything with `size()` and `operator[]`.
template <class Counters, class T>
[[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_OUTLINE std::uint64_t histogram_total(T const& t, Counters const& counters) {
    std::uint64_t total = 0;
    MULTIDRAFT_UNROLL_BY(8)
    for (auto b = static_cast<std::size_t>(t.lane()); b < counters.size(); b += warp_size)
        total += counters[static_cast<std::size_t>(b)];
    for (int bit = warp_size / 2; bit > 0; bit /= 2) total += t.lanes().shuffle_xor(total, bit);
    return total;
}

/// The bin in which a running sum from the last bin downwards reaches `wanted`; on return `wanted` is what is left
/// to take from that bin. Bin 0 if none does. The number of bins is a multiple of 32.
template <class Counters, class T>
[[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_OUTLINE index_t histogram_bin_reaching(T const& t, Counters const& counters,
                                                                              std::uint64_t& wanted) {
    auto const run = static_cast<index_t>(counters.size()) / warp_size;
    index_t const first = t.lane() * run;
    std::uint64_t sum = 0;
    for (index_t k = 0; k < run; ++k)  // threads start at different bins to avoid bank conflicts
        sum += counters[static_cast<std::size_t>(first + (k + t.lane()) % run)];
    std::uint64_t from_here = sum;  // including the runs above
    for (int step = 1; step < warp_size; step *= 2) {
        std::uint64_t const above = t.lanes().shuffle(from_here, (t.lane() + step) % warp_size);
        from_here += t.lane() + step < warp_size ? above : 0;
    }
    std::uint32_t const reached = t.lanes().ballot(from_here >= wanted);
    int const chosen = reached == 0 ? 0 : warp_size - 1 - T::leading_zeros(reached);
    wanted -= t.lanes().shuffle(from_here - sum, chosen);
    index_t b = (chosen + 1) * run - 1;

    MULTIDRAFT_ROLL
    for (; b > chosen * run && counters[static_cast<std::size_t>(b)] < wanted; --b)
        wanted -= counters[static_cast<std::size_t>(b)];
    return b;
}

/// Adds the counters of all ranks to `bins`: through counters in global memory.
template <class T>
MULTIDRAFT_HD MULTIDRAFT_OUTLINE void add_in_memory(T const& t, std::uint32_t const* low, std::uint32_t const* high,
                                                    index_t here, std::uint64_t* bins) {
    t.lanes().sync();
    std::uint64_t* other = nullptr;
    std::uint64_t* const all = t.next_accumulators(other);
    for (index_t b = t.lanes().thread(); b < here; b += T::threads) {
        std::uint64_t const mine = low[b] + (std::uint64_t{high[b]} << 32);
        if (mine != 0) t.lanes().add_to(all + b, mine);
    }
    t.lanes().sync_all();
    for (index_t b = t.lanes().thread(); b < here; b += T::threads) bins[b] = all[b];
    // No thread reads the other array any more, and none adds to it before the barrier.
    constexpr auto capacity = static_cast<index_t>(T::storage::count_capacity);
    for (index_t b = t.lanes().rank() * T::threads + t.lanes().thread(); b < capacity;
         b += t.lanes().ranks() * T::threads)
        other[b] = 0;
}

/// The same, through the shared memory of the ranks.
template <class T>
MULTIDRAFT_HD MULTIDRAFT_OUTLINE void add_of_ranks(T const& t, std::uint32_t* low, std::uint32_t* high, index_t here,
                                                   std::uint64_t* bins) {
    t.lanes().sync_all();
    for (index_t b = t.lanes().thread(); b < here; b += T::threads) {
        std::uint64_t total = 0;
        for (int r = 0; r < t.lanes().ranks(); ++r)
            total += *t.lanes().at_rank(low + b, r) + (std::uint64_t{*t.lanes().at_rank(high + b, r)} << 32);
        bins[b] = total;
    }
}

/// Counts the bins in windows: `here` bins from `begin` on. `place(i, begin, here, item)`, then `weigh_item(i, item)`,
/// set what entry i adds (a default `Item` adds nothing); `add(item, low, high)` adds it; `finish(low, high)` adds
/// what a thread has kept in registers.
template <class Item, class Place, class Weigh, class Add, class Finish, class T>
MULTIDRAFT_HD MULTIDRAFT_INLINE void count_in_windows(T const& t, index_t n, span<std::uint64_t> bins,
                                                      Place const& place, Weigh const& weigh_item, Add const& add,
                                                      Finish const& finish) {
    constexpr auto capacity = static_cast<index_t>(T::storage::count_capacity);
    auto* const low = reinterpret_cast<std::uint32_t*>(t.shared().scratch);
    std::uint32_t* const high = low + capacity;
    auto const size = static_cast<index_t>(bins.size());
    for (index_t begin = 0; begin < size; begin += capacity) {
        index_t const here = size - begin < capacity ? size - begin : capacity;
        t.lanes().sync();
        for (index_t b = t.lanes().thread(); b < here; b += T::threads) {
            low[b] = 0;
            high[b] = 0;
        }
        t.lanes().sync();
        // One step for all entries of a run, then the next: loads are not joined across a branch or an addition.
        t.for_runs(
            n,
            [&](index_t run) MULTIDRAFT_INLINE_LAMBDA {
                Item items[T::wide_lanes];
                MULTIDRAFT_UNROLL
                for (int j = 0; j < T::wide; ++j) place(T::entry_of(run, j), begin, here, items[j]);
                MULTIDRAFT_UNROLL
                for (int j = 0; j < T::wide; ++j) weigh_item(T::entry_of(run, j), items[j]);
                MULTIDRAFT_UNROLL
                for (Item const& item : items) add(item, low, high);
            },
            [&](index_t i) MULTIDRAFT_INLINE_LAMBDA {
                Item item;
                place(i, begin, here, item);
                weigh_item(i, item);
                add(item, low, high);
            });
        finish(low, high);
        if constexpr (T::may_use_memory)
            if (t.in_memory()) add_in_memory(t, low, high, here, bins.data() + begin);
        if constexpr (T::may_share)
            if (!t.in_memory()) add_of_ranks(t, low, high, here, bins.data() + begin);
        t.lanes().sync_all();
    }
}

/// Adds to a counter of two words, with carry.
template <class T>
MULTIDRAFT_HD void add_wide(T const& t, std::uint32_t* low, std::uint32_t* high, std::uint32_t more) {
    if (t.lanes().add(low, more) > ~more) t.lanes().add(high, 1U);
}

/// Counts in the shared memory of each rank, 64 bits as two words, then adds the ranks' counts. Bin 0 is summed in
/// registers: if most entries fall into it, they do not contend for its counter.
template <class Bin, class Mass, class T>
MULTIDRAFT_HD MULTIDRAFT_OUTLINE void histogram(T const& t, index_t n, Bin const& bin_of, Mass const& mass_of,
                                                span<std::uint64_t> bins) {
    Bin const bin = bin_of;
    Mass const mass = mass_of;
    struct one {
        index_t at = none;
        std::uint32_t more = 0;
    };
    std::uint64_t plain = 0;
    count_in_windows<one>(
        t, n, bins,
        [&](index_t i, index_t begin, index_t here, one& item) MULTIDRAFT_INLINE_LAMBDA {
            index_t const b = bin(i);
            item.at = ((b >= begin) & (b - begin < here)) ? b - begin : none;
        },
        [&](index_t i, one& item) MULTIDRAFT_INLINE_LAMBDA {
            if (item.at >= 0) item.more = static_cast<std::uint32_t>(mass(i));
        },
        [&](one const& item, std::uint32_t* low, std::uint32_t* high) MULTIDRAFT_INLINE_LAMBDA {
            if (item.at == 0)
                plain += item.more;
            else if (item.at > 0)
                add_wide(t, low + item.at, high + item.at, item.more);
        },
        [&](std::uint32_t* low, std::uint32_t* high) MULTIDRAFT_INLINE_LAMBDA {
            for (int bit = warp_size / 2; bit > 0; bit /= 2) plain += t.lanes().shuffle_xor(plain, bit);
            if (t.lane() == 0) {
                add_wide(t, low, high, static_cast<std::uint32_t>(plain));
                if (plain >> 32 != 0) t.lanes().add(high, static_cast<std::uint32_t>(plain >> 32));
            }
            plain = 0;
        });
}

template <class F, class T>
MULTIDRAFT_HD MULTIDRAFT_OUTLINE void histogram_pairs(T const& t, index_t n, F const& function,
                                                      span<std::uint64_t> bins) {
    F const f = function;
    struct two {
        index_t at = none;
        std::uint32_t first = 0;
        std::uint32_t second = 0;
    };
    count_in_windows<two>(
        t, n, bins,
        [&](index_t i, index_t begin, index_t here, two& item) MULTIDRAFT_INLINE_LAMBDA {
            binned_pair const more = f(i);
            if (more.bin >= begin / 2 && more.bin - begin / 2 < here / 2) item.at = 2 * more.bin - begin;
            item.first = static_cast<std::uint32_t>(more.first);
            item.second = static_cast<std::uint32_t>(more.second);
        },
        [](index_t, two&) MULTIDRAFT_INLINE_LAMBDA {},
        [&](two const& item, std::uint32_t* low, std::uint32_t* high) MULTIDRAFT_INLINE_LAMBDA {
            // Tokens of negligible mass are many and share few bins: skipping zeros avoids contention.
            if (item.at >= 0 && item.first != 0) add_wide(t, low + item.at, high + item.at, item.first);
            if (item.at >= 0 && item.second != 0) add_wide(t, low + item.at + 1, high + item.at + 1, item.second);
        },
        [](std::uint32_t*, std::uint32_t*) MULTIDRAFT_INLINE_LAMBDA {});
}

}  // namespace MULTIDRAFT_NAMESPACE::cuda::detail
