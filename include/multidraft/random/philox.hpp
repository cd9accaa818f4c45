// Philox4x32-10, the counter-based generator that every draw of the library comes from.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "multidraft/base/config.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// The key of Philox4x32: two words.
struct philox_key {
    std::uint32_t word[2] = {};

    friend constexpr bool operator==(philox_key const&, philox_key const&) = default;
};

/// A counter of Philox4x32, and a block of its output: four words.
struct philox_block {
    std::uint32_t word[4] = {};

    friend constexpr bool operator==(philox_block const&, philox_block const&) = default;
};

namespace detail {

[[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE constexpr std::uint32_t multiply_high(std::uint32_t a,
                                                                                    std::uint32_t b) noexcept {
    return static_cast<std::uint32_t>((static_cast<std::uint64_t>(a) * b) >> 32);
}

}  // namespace detail

/// The four random words of `counter` under `key`: stateless, and for every key a bijection of the counters.
///
/// Philox4x32 with ten rounds: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC'11. The
/// same words as Random123, cuRAND's Philox and std::philox4x32.
[[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE constexpr philox_block philox4x32(philox_block counter,
                                                                                philox_key key) noexcept {
    std::uint32_t a = counter.word[0];
    std::uint32_t b = counter.word[1];
    std::uint32_t c = counter.word[2];
    std::uint32_t d = counter.word[3];
    std::uint32_t key0 = key.word[0];
    std::uint32_t key1 = key.word[1];
    for (int round = 0; round < 10; ++round) {
        std::uint32_t const high0 = detail::multiply_high(0xD2511F53U, a);
        std::uint32_t const high1 = detail::multiply_high(0xCD9E8D57U, c);
        std::uint32_t const low0 = 0xD2511F53U * a;
        std::uint32_t const low1 = 0xCD9E8D57U * c;
        a = high1 ^ b ^ key0;
        b = low1;
        c = high0 ^ d ^ key1;
        d = low0;
        key0 += 0x9E3779B9U;  // the golden ratio
        key1 += 0xBB67AE85U;  // sqrt(3) - 1
    }
    return {{a, b, c, d}};
}

}  // namespace MULTIDRAFT_NAMESPACE
