// Counting the entries of a row into bins on a host, which is bound by loads and stores rather than arithmetic.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "multidraft/base/blend.hpp"
#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/group/optional_members.hpp"
#include "multidraft/group/runs.hpp"

namespace MULTIDRAFT_NAMESPACE::detail {

/// One vector, one addition.
MULTIDRAFT_HD MULTIDRAFT_INLINE void add_pair(std::uint64_t* counter, std::uint32_t const* amount) {
    std::uint64_t const first = counter[0] + amount[0];
    std::uint64_t const second = counter[1] + amount[1];
    counter[0] = first;
    counter[1] = second;
}

/// The counters of `histogram_pairs`. Neighbours in a row often share a bin, and an addition to a counter that was just
/// stored waits for the store. So neighbours alternate between several tables, which are on the thread's stack.
class pair_tables {
public:
    static constexpr index_t most_bins = 264;  ///< enough for `verify::detail::ratio_histogram`

    MULTIDRAFT_HD explicit pair_tables(index_t bins) noexcept : bins_(bins) {
        for (auto& t : table_)
            for (index_t b = 0; b < 2 * bins + 2; ++b) t[b] = 0;
    }

    /// Adds the pairs f(0), .. f(size - 1), `chunk_lanes` at most.
    template <class F>
    MULTIDRAFT_HD MULTIDRAFT_INLINE void add(index_t size, F const& f) {
        alignas(64) std::uint32_t where[chunk_lanes];
        alignas(64) std::uint32_t amount[2 * chunk_lanes];
        auto const outside = static_cast<std::uint32_t>(bins_);
        for (index_t l = 0; l < size; ++l) {
            binned_pair const more = f(l);
            auto const b = static_cast<std::uint32_t>(more.bin);  // below 0 is far above
            where[l] = 2 * (b < outside ? b : outside);
            amount[2 * l] = static_cast<std::uint32_t>(more.first);
            amount[2 * l + 1] = static_cast<std::uint32_t>(more.second);
        }
        index_t l = 0;
        for (; l + tables <= size; l += tables)
            for (index_t t = 0; t < tables; ++t) add_pair(table_[t] + where[l + t], amount + 2 * (l + t));
        for (; l < size; ++l) add_pair(table_[0] + where[l], amount + 2 * l);
    }

    MULTIDRAFT_HD void gather(span<std::uint64_t> sums) const {
        for (auto const& t : table_)
            for (index_t b = 0; b < 2 * bins_; ++b) sums[static_cast<std::size_t>(b)] += t[b];
    }

private:
    static constexpr index_t tables = 4;

    alignas(64) std::uint64_t table_[tables][2 * most_bins + 2];  // and a bin for entries outside
    index_t bins_;
};

/// The position of the lowest bit that is 1; `bits` is not 0.
[[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE index_t lowest_bit(std::uint64_t bits) noexcept {
#if defined(__CUDA_ARCH__)
    return __ffsll(static_cast<long long>(bits)) - 1;
#else
    return std::countr_zero(bits);
#endif
}

/// The positions of the flags that are 1, from `begin` on, in any order. Eight flags are tested at a time.
[[nodiscard]] MULTIDRAFT_HD inline index_t list_flags(unsigned char const (&flags)[chunk_lanes], index_t begin,
                                                      index_t* out) {
    index_t count = 0;
    for (index_t first = 0; first < chunk_lanes; first += 8) {
        std::uint64_t eight = 0;
        std::memcpy(&eight, flags + first, sizeof eight);
        for (; eight != 0; eight &= eight - 1) {
            index_t const k = lowest_bit(eight) / 8;
            out[count++] = begin + first + (std::endian::native == std::endian::little ? k : 7 - k);
        }
    }
    return count;
}

/// `histogram` and `histogram_pairs` of a row on one thread.
class host_histogram {
public:
    /// Bins, masses and sums in separate loops, the first two vectorised. Masses are computed only for entries that
    /// have a bin, one by one where these are few. Bin 0 is summed by the vector units.
    template <class Bin, class Mass>
    MULTIDRAFT_HD static void count(index_t n, Bin const& bin_of, Mass const& mass_of, span<std::uint64_t> bins) {
        for (auto& b : bins) b = 0;
        if (bins.size() == 0) return;
        auto const limit = static_cast<std::uint32_t>(bins.size());
        std::uint32_t where[chunk_lanes];
        std::int32_t amount[chunk_lanes];
        std::uint64_t zeros[block] = {};
        for (index_t chunk = 0; chunk < n; chunk += chunk_size) {
            index_t const chunk_end = n - chunk < chunk_size ? n : chunk + chunk_size;
            Bin const bin = in_chunk(bin_of, chunk, chunk_end);
            Mass const mass = in_chunk(mass_of, chunk, chunk_end);
            for (index_t begin = chunk; begin < chunk_end; begin += chunk_lanes) {
                index_t const size = n - begin < chunk_lanes ? n - begin : chunk_lanes;
                index_t const inside = find_bins(bin, limit, begin, size, where);
                if (inside == 0) continue;
                if (inside <= chunk_lanes / 8) {
                    count_few(mass, limit, begin, size, where, bins);
                    continue;
                }
                find_masses(mass, begin, size, amount);
                add_masses(limit, size, where, amount, zeros, bins);
            }
        }
        for (std::uint64_t const sum : zeros) bins[0] += sum;
    }

    /// Pairs and sums in separate loops, the first vectorised (see `pair_tables`). Where few entries count, a
    /// function that has `may_be_nonzero(i)` is evaluated at those only.
    template <class F>
    MULTIDRAFT_HD static void count_pairs(index_t n, F const& function, span<std::uint64_t> bins) {
        F const f = function;
        for (auto& b : bins) b = 0;
        auto const limit = static_cast<index_t>(bins.size() / 2);
        if (limit > pair_tables::most_bins) {
            for (index_t i = 0; i < n; ++i) {
                binned_pair const more = f(i);
                if (more.bin < 0 || more.bin >= limit) continue;
                std::uint32_t const amount[2] = {static_cast<std::uint32_t>(more.first),
                                                 static_cast<std::uint32_t>(more.second)};
                add_pair(bins.data() + std::ptrdiff_t{2} * more.bin, amount);
            }
            return;
        }
        pair_tables counted(limit);
        if constexpr (has_may_be_nonzero<F>)
            add_few(n, f, counted);
        else
            for (index_t begin = 0; begin < n; begin += chunk_lanes) add_run(begin, n, f, counted);
        counted.gather(bins);
    }

private:
    static constexpr index_t block = 64;  ///< lanes processed at a time

    // The step of `histogram` over some adjacent entries: `bin_of` and `mass_of` hold their bins and their masses.

    /// Returns how many entries have a bin.
    template <class Bin>
    [[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE static index_t find_bins(Bin const& bin, std::uint32_t limit,
                                                                           index_t begin, index_t size,
                                                                           std::uint32_t (&bin_of)[chunk_lanes]) {
        index_t inside = 0;
        by_runs(bin, begin, begin + size, [&](auto const& here, index_t first, index_t end) MULTIDRAFT_INLINE_LAMBDA {
            for (index_t l = first - begin; l < end - begin; ++l) {
                bin_of[l] = static_cast<std::uint32_t>(here(begin + l));  // below 0 is far above
                inside += bin_of[l] < limit ? 1 : 0;
            }
        });
        return inside;
    }

    template <class Mass>
    MULTIDRAFT_HD MULTIDRAFT_INLINE static void find_masses(Mass const& mass, index_t begin, index_t size,
                                                            std::int32_t (&mass_of)[chunk_lanes]) {
        by_runs(mass, begin, begin + size, [&](auto const& here, index_t first, index_t end) MULTIDRAFT_INLINE_LAMBDA {
            for (index_t l = first - begin; l < end - begin; ++l) mass_of[l] = here(begin + l);
        });
    }

    /// Lists the few entries that have a bin, and computes their masses one by one.
    template <class Mass>
    MULTIDRAFT_HD MULTIDRAFT_INLINE static void count_few(Mass const& mass, std::uint32_t limit, index_t begin,
                                                          index_t size, std::uint32_t const (&bin_of)[chunk_lanes],
                                                          span<std::uint64_t> bins) {
        index_t list[chunk_lanes];
        index_t const count = list_bins(0, limit, size, bin_of, list);
        for (index_t k = 0; k < count; ++k) bins[bin_of[list[k]]] += static_cast<std::uint64_t>(mass(begin + list[k]));
    }

    // What follows is the same for all rows: functions of their own, which a program compiles once.

    /// Lists the entries whose bin is from `least` to below `limit`.
    MULTIDRAFT_HD MULTIDRAFT_OUTLINE static index_t list_bins(std::uint32_t least, std::uint32_t limit, index_t size,
                                                              std::uint32_t const (&bin_of)[chunk_lanes],
                                                              index_t (&list)[chunk_lanes]) {
        alignas(64) unsigned char flags[chunk_lanes] = {};
        for (index_t l = 0; l < size; ++l) flags[l] = bin_of[l] - least < limit - least ? 1 : 0;
        return list_flags(flags, 0, list);
    }

    /// Adds the masses to their bins. Where many are in bin 0 the vector units sum these, in `zeros`.
    MULTIDRAFT_HD MULTIDRAFT_OUTLINE static void add_masses(std::uint32_t limit, index_t size,
                                                            std::uint32_t (&bin_of)[chunk_lanes],
                                                            std::int32_t const (&mass_of)[chunk_lanes],
                                                            std::uint64_t (&zeros)[block], span<std::uint64_t> bins) {
        index_t in_bin_0 = 0;
        for (index_t l = 0; l < size; ++l) in_bin_0 += bin_of[l] == 0 ? 1 : 0;
        if (in_bin_0 <= chunk_lanes / 8) {
            for (index_t l = 0; l < size; ++l)
                if (bin_of[l] < limit) bins[bin_of[l]] += static_cast<std::uint64_t>(mass_of[l]);
            return;
        }
        for (index_t l = size; l < chunk_lanes; ++l) bin_of[l] = 1;
        for (index_t r = 0; r < chunk_lanes; r += block)
            for (index_t l = 0; l < block; ++l)
                zeros[l] += blend(bin_of[r + l] == 0, static_cast<std::uint32_t>(mass_of[r + l]), 0U);
        index_t list[chunk_lanes];
        index_t const count = list_bins(1, limit, size, bin_of, list);
        for (index_t k = 0; k < count; ++k) bins[bin_of[list[k]]] += static_cast<std::uint64_t>(mass_of[list[k]]);
    }

    template <class F>
    MULTIDRAFT_HD MULTIDRAFT_INLINE static void add_run(index_t begin, index_t n, F const& f, pair_tables& counted) {
        index_t const size = n - begin < chunk_lanes ? n - begin : chunk_lanes;
        counted.add(size, [&](index_t l) MULTIDRAFT_INLINE_LAMBDA { return f(begin + l); });
    }

    /// Entries that count are listed until there is a run of them; where they are many, the run is taken as it is.
    template <class F>
    MULTIDRAFT_HD static void add_few(index_t n, F const& f, pair_tables& counted) {
        index_t few[2 * chunk_lanes] = {};
        index_t waiting = 0;
        for (index_t begin = 0; begin < n; begin += chunk_lanes) {
            index_t const size = n - begin < chunk_lanes ? n - begin : chunk_lanes;
            alignas(64) unsigned char flags[chunk_lanes] = {};
            index_t count = 0;
            for (index_t l = 0; l < size; ++l) {
                flags[l] = f.may_be_nonzero(begin + l) ? 1 : 0;
                count += flags[l];
            }
            if (count > chunk_lanes / 4) {
                add_run(begin, n, f, counted);
                continue;
            }
            if (count > 0) waiting += list_flags(flags, begin, few + waiting);
            if (waiting < chunk_lanes) continue;
            counted.add(chunk_lanes, [&](index_t l) MULTIDRAFT_INLINE_LAMBDA { return f(few[l]); });
            waiting -= chunk_lanes;
            for (index_t l = 0; l < waiting; ++l) few[l] = few[chunk_lanes + l];
        }
        counted.add(waiting, [&](index_t l) MULTIDRAFT_INLINE_LAMBDA { return f(few[l]); });
    }
};

}  // namespace MULTIDRAFT_NAMESPACE::detail
