// Counting the entries of a row into bins on a host, which is bound by loads and stores rather than arithmetic.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"

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

}  // namespace MULTIDRAFT_NAMESPACE::detail
