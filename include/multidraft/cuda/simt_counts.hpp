// Histograms of a row's entries by a CUDA group, and the steps of a radix descent over their counters.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/cuda/lane_context.hpp"
#include "multidraft/cuda/simt_search.hpp"
#include "multidraft/group/group.hpp"

namespace MULTIDRAFT_NAMESPACE::cuda {

/// `histogram` and `histogram_pairs`: counters in the shared memory of each rank; all ranks get their sums.
template <lane_context Lanes, int Split, class Widest, int Wide>
class simt_counts : public simt_search<Lanes, Split, Widest, Wide> {
    using base = simt_search<Lanes, Split, Widest, Wide>;

public:
    using base::base;
    using base::threads;
    using base::wide;

    using storage = typename base::storage;

    /// The group's own counters for `histogram`, in shared memory. Every call returns the same ones.
    template <std::size_t N>
    [[nodiscard]] MULTIDRAFT_HD span<std::uint64_t> counters() const noexcept {
        static_assert(N <= storage::counters_size);
        return {shared_->counters, N};
    }

    /// The sum of all counters, given as a span or anything with `size()` and `operator[]`.
    template <class Counters>
    [[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_OUTLINE std::uint64_t histogram_total(Counters const& counters) const {
        std::uint64_t total = 0;
        MULTIDRAFT_UNROLL_BY(8)
        for (auto b = static_cast<std::size_t>(lane()); b < counters.size(); b += warp_size)
            total += counters[static_cast<std::size_t>(b)];
        for (int bit = warp_size / 2; bit > 0; bit /= 2) total += lanes_.shuffle_xor(total, bit);
        return total;
    }

    /// The bin in which a running sum from the last bin downwards reaches `wanted`; on return `wanted` is what is left
    /// to take from that bin. Bin 0 if none does. The number of bins is a multiple of 32.
    template <class Counters>
    [[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_OUTLINE index_t histogram_bin_reaching(Counters const& counters,
                                                                                  std::uint64_t& wanted) const {
        auto const run = static_cast<index_t>(counters.size()) / warp_size;
        index_t const first = lane() * run;
        std::uint64_t sum = 0;
        for (index_t k = 0; k < run; ++k)  // threads start at different bins to avoid bank conflicts
            sum += counters[static_cast<std::size_t>(first + (k + lane()) % run)];
        std::uint64_t from_here = sum;  // including the runs above
        for (int step = 1; step < warp_size; step *= 2) {
            std::uint64_t const above = lanes_.shuffle(from_here, (lane() + step) % warp_size);
            from_here += lane() + step < warp_size ? above : 0;
        }
        std::uint32_t const reached = lanes_.ballot(from_here >= wanted);
        int const chosen = reached == 0 ? 0 : warp_size - 1 - leading_zeros(reached);
        wanted -= lanes_.shuffle(from_here - sum, chosen);
        index_t b = (chosen + 1) * run - 1;

        MULTIDRAFT_ROLL
        for (; b > chosen * run && counters[static_cast<std::size_t>(b)] < wanted; --b)
            wanted -= counters[static_cast<std::size_t>(b)];
        return b;
    }

    /// Counts in the shared memory of each rank, 64 bits as two words, then adds the ranks' counts. Bin 0 is summed in
    /// registers: if most entries fall into it, they do not contend for its counter.
    template <class Bin, class Mass>
    MULTIDRAFT_HD MULTIDRAFT_OUTLINE void histogram(index_t n, Bin const& bin_of, Mass const& mass_of,
                                                    span<std::uint64_t> bins) const {
        Bin const bin = bin_of;
        Mass const mass = mass_of;
        struct one {
            index_t at = none;
            std::uint32_t more = 0;
        };
        std::uint64_t plain = 0;
        count_in_windows<one>(
            n, bins,
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
                    add_wide(low + item.at, high + item.at, item.more);
            },
            [&](std::uint32_t* low, std::uint32_t* high) MULTIDRAFT_INLINE_LAMBDA {
                for (int bit = warp_size / 2; bit > 0; bit /= 2) plain += lanes_.shuffle_xor(plain, bit);
                if (lane() == 0) {
                    add_wide(low, high, static_cast<std::uint32_t>(plain));
                    if (plain >> 32 != 0) lanes_.add(high, static_cast<std::uint32_t>(plain >> 32));
                }
                plain = 0;
            });
    }

    template <class F>
    MULTIDRAFT_HD MULTIDRAFT_OUTLINE void histogram_pairs(index_t n, F const& function,
                                                          span<std::uint64_t> bins) const {
        F const f = function;
        struct two {
            index_t at = none;
            std::uint32_t first = 0;
            std::uint32_t second = 0;
        };
        count_in_windows<two>(
            n, bins,
            [&](index_t i, index_t begin, index_t here, two& item) MULTIDRAFT_INLINE_LAMBDA {
                binned_pair const more = f(i);
                if (more.bin >= begin / 2 && more.bin - begin / 2 < here / 2) item.at = 2 * more.bin - begin;
                item.first = static_cast<std::uint32_t>(more.first);
                item.second = static_cast<std::uint32_t>(more.second);
            },
            [](index_t, two&) MULTIDRAFT_INLINE_LAMBDA {},
            [&](two const& item, std::uint32_t* low, std::uint32_t* high) MULTIDRAFT_INLINE_LAMBDA {
                // Tokens of negligible mass are many and share few bins: skipping zeros avoids contention.
                if (item.at >= 0 && item.first != 0) add_wide(low + item.at, high + item.at, item.first);
                if (item.at >= 0 && item.second != 0) add_wide(low + item.at + 1, high + item.at + 1, item.second);
            },
            [](std::uint32_t*, std::uint32_t*) MULTIDRAFT_INLINE_LAMBDA {});
    }

protected:
    using base::entry_of;
    using base::for_runs;
    using base::in_memory;
    using base::lane;
    using base::lanes_;
    using base::leading_zeros;
    using base::may_share;
    using base::may_use_memory;
    using base::shared_;
    using base::wide_lanes;

    /// Counts the bins in windows: `here` bins from `begin` on. `place(i, begin, here, item)`, then `weigh(i, item)`,
    /// set what entry i adds (a default `Item` adds nothing); `add(item, low, high)` adds it; `finish(low, high)` adds
    /// what a thread has kept in registers.
    template <class Item, class Place, class Weigh, class Add, class Finish>
    MULTIDRAFT_HD MULTIDRAFT_INLINE void count_in_windows(index_t n, span<std::uint64_t> bins, Place const& place,
                                                          Weigh const& weigh_item, Add const& add,
                                                          Finish const& finish) const {
        constexpr auto capacity = static_cast<index_t>(storage::count_capacity);
        auto* const low = reinterpret_cast<std::uint32_t*>(shared_->scratch);
        std::uint32_t* const high = low + capacity;
        auto const size = static_cast<index_t>(bins.size());
        for (index_t begin = 0; begin < size; begin += capacity) {
            index_t const here = size - begin < capacity ? size - begin : capacity;
            lanes_.sync();
            for (index_t b = lanes_.thread(); b < here; b += threads) {
                low[b] = 0;
                high[b] = 0;
            }
            lanes_.sync();
            // One step for all entries of a run, then the next: loads are not joined across a branch or an addition.
            for_runs(
                n,
                [&](index_t run) MULTIDRAFT_INLINE_LAMBDA {
                    Item items[wide_lanes];
                    MULTIDRAFT_UNROLL
                    for (int j = 0; j < wide; ++j) place(entry_of(run, j), begin, here, items[j]);
                    MULTIDRAFT_UNROLL
                    for (int j = 0; j < wide; ++j) weigh_item(entry_of(run, j), items[j]);
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
            if constexpr (may_use_memory)
                if (in_memory()) add_in_memory(low, high, here, bins.data() + begin);
            if constexpr (may_share)
                if (!in_memory()) add_of_ranks(low, high, here, bins.data() + begin);
            lanes_.sync_all();
        }
    }

    /// Adds the counters of all ranks to `bins`: through counters in global memory.
    MULTIDRAFT_HD MULTIDRAFT_OUTLINE void add_in_memory(std::uint32_t const* low, std::uint32_t const* high,
                                                        index_t here, std::uint64_t* bins) const {
        lanes_.sync();
        std::uint64_t* const all = lanes_.accumulators(count_turn_ & 1U);
        for (index_t b = lanes_.thread(); b < here; b += threads) {
            std::uint64_t const mine = low[b] + (std::uint64_t{high[b]} << 32);
            if (mine != 0) lanes_.add_to(all + b, mine);
        }
        lanes_.sync_all();
        for (index_t b = lanes_.thread(); b < here; b += threads) bins[b] = all[b];
        // No thread reads the other array any more, and none adds to it before the barrier.
        std::uint64_t* const other = lanes_.accumulators(++count_turn_ & 1U);
        constexpr auto capacity = static_cast<index_t>(storage::count_capacity);
        for (index_t b = lanes_.rank() * threads + lanes_.thread(); b < capacity; b += lanes_.ranks() * threads)
            other[b] = 0;
    }

    /// The same, through the shared memory of the ranks.
    MULTIDRAFT_HD MULTIDRAFT_OUTLINE void add_of_ranks(std::uint32_t* low, std::uint32_t* high, index_t here,
                                                       std::uint64_t* bins) const {
        lanes_.sync_all();
        for (index_t b = lanes_.thread(); b < here; b += threads) {
            std::uint64_t total = 0;
            for (int r = 0; r < lanes_.ranks(); ++r)
                total += *lanes_.at_rank(low + b, r) + (std::uint64_t{*lanes_.at_rank(high + b, r)} << 32);
            bins[b] = total;
        }
    }

    /// Adds to a counter of two words, with carry.
    MULTIDRAFT_HD void add_wide(std::uint32_t* low, std::uint32_t* high, std::uint32_t more) const {
        if (lanes_.add(low, more) > ~more) lanes_.add(high, 1U);
    }

    struct no_turn {};
    [[no_unique_address]] mutable std::conditional_t<may_use_memory, unsigned, no_turn> count_turn_{};
};

}  // namespace MULTIDRAFT_NAMESPACE::cuda
