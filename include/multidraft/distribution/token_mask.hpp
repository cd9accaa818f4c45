// Which tokens are allowed in a row: one bit for each token, as grammar engines produce it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <type_traits>

#include "multidraft/core/config.hpp"

namespace MULTIDRAFT_NAMESPACE {

namespace detail {

/// The integer types of mask words: 32 or 64 bits, signed or unsigned.
template <class Word>
concept mask_word = std::integral<Word> &&(sizeof(Word) == 4 || sizeof(Word) == 8);

}  // namespace detail

/// One bit for each token: 1 where the token is allowed. A view of the caller's words; without words all tokens are
/// allowed.
///
/// Token i is bit i % B of word i / B, for words of B = 32 or 64 bits: `std::int32_t` (xgrammar), `std::uint32_t`
/// (llguidance) or `std::uint64_t`. There are ceil(V / B) words; bits beyond the vocabulary are ignored. For
/// little-endian machines only, where words of 32 and of 64 bits have the same layout.
class token_mask {
public:
    token_mask() = default;
    /// Token i is allowed if bit i % w of word i / w is set, for words of w bits; the words belong to the caller.
    template <detail::mask_word Word>
    MULTIDRAFT_HD explicit token_mask(Word const* words) noexcept
        : bytes_(reinterpret_cast<unsigned char const*>(words)) {
        static_assert(std::endian::native == std::endian::little,
                      "multidraft: masks of tokens are for little-endian machines");
    }

    /// Whether there are no words, so that no token is forbidden.
    [[nodiscard]] MULTIDRAFT_HD bool empty() const noexcept { return bytes_ == nullptr; }
    /// Whether token i is allowed.
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD bool operator()(index_t i) const noexcept {
        return bytes_ == nullptr || (bits_of_32(i) >> (i & 31) & 1U) != 0;
    }
    /// The bits of 64 tokens from `begin` on, a multiple of 64; where there are fewer up to `end`, the others are 1.
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD std::uint64_t bits(index_t begin, index_t end) const noexcept {
        if (bytes_ == nullptr) return ~std::uint64_t{0};
        std::uint64_t result = bits_of_32(begin);
        if (end - begin > 32) result |= std::uint64_t{bits_of_32(begin + 32)} << 32;
        index_t const there = end - begin;
        return there < 64 ? result | ~std::uint64_t{0} << there : result;
    }

private:
    /// The 32-bit word with the bit of token i.
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD std::uint32_t bits_of_32(index_t i) const noexcept {
        unsigned char const* const at = bytes_ + (i >> 5) * std::int64_t{4};
#if MULTIDRAFT_ON_DEVICE
        return *reinterpret_cast<std::uint32_t const*>(at);
#else
        std::uint32_t result = 0;  // the words have another type
        __builtin_memcpy(&result, at, 4);
        return result;
#endif
    }

    unsigned char const* bytes_ = nullptr;
};

/// The masks of several rows, `stride` words apart. A stride of 0: one mask for all rows.
class token_masks {
public:
    token_masks() = default;
    /// The mask of row r begins at `words + r * stride`.
    template <detail::mask_word Word>
    MULTIDRAFT_HD token_masks(Word const* words, std::int64_t stride) noexcept
        : words_(words), step_(stride * static_cast<std::int64_t>(sizeof(Word) / 4)) {}

    /// The mask of one row; without words, one that allows every token.
    [[nodiscard]] MULTIDRAFT_HD token_mask operator()(std::int64_t row) const noexcept {
        if (words_ == nullptr) return {};
        return token_mask(static_cast<std::uint32_t const*>(words_) + row * step_);
    }

private:
    void const* words_ = nullptr;
    std::int64_t step_ = 0;  ///< in words of 32 bits
};

}  // namespace MULTIDRAFT_NAMESPACE
