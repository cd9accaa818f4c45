// Which tokens are allowed in a row: one bit for each token, as grammar engines produce it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <ranges>
#include <string>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"

namespace MULTIDRAFT_NAMESPACE {

namespace detail {

/// The integer types of mask words: 32 or 64 bits, signed or unsigned.
template <class Word>
concept mask_word = std::integral<Word> &&(sizeof(Word) == 4 || sizeof(Word) == 8);

/// The ranges of such words.
template <class R>
concept mask_words =
    std::ranges::contiguous_range<R> && std::ranges::sized_range<R> && mask_word<std::ranges::range_value_t<R>>;

}  // namespace detail

/// One bit for each token: 1 where the token is allowed. A view of the caller's words; without words all tokens are
/// allowed.
///
/// Token i is bit i % B of word i / B, for words of B = 32 or 64 bits: `std::int32_t` (xgrammar), `std::uint32_t`
/// (llguidance) or `std::uint64_t`. There are at least ceil(V / B) words; bits beyond the vocabulary are ignored. For
/// little-endian machines only, where words of 32 and of 64 bits have the same layout.
class token_mask {
public:
    token_mask() = default;
    /// Token i is allowed if bit i % w of word i / w is set, for `count` words of w bits; they belong to the caller.
    template <detail::mask_word Word>
    MULTIDRAFT_HD token_mask(Word const* words, std::size_t count) noexcept
        : bytes_(reinterpret_cast<unsigned char const*>(words)),
          tokens_(static_cast<std::int64_t>(count * 8 * sizeof(Word))) {
        static_assert(std::endian::native == std::endian::little,
                      "multidraft: masks of tokens are for little-endian machines");
    }
    /// The same for a contiguous range of words.
    template <detail::mask_words R>
    explicit token_mask(R const& words) noexcept : token_mask(std::ranges::data(words), std::ranges::size(words)) {}

    /// Whether there are no words, so that no token is forbidden.
    [[nodiscard]] MULTIDRAFT_HD bool empty() const noexcept { return bytes_ == nullptr; }
    /// The words: null without any.
    [[nodiscard]] MULTIDRAFT_HD void const* words() const noexcept { return bytes_; }
    /// How many tokens the words have bits for; 0 without words.
    [[nodiscard]] MULTIDRAFT_HD std::int64_t tokens() const noexcept { return tokens_; }
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
    std::int64_t tokens_ = 0;
};

/// The masks of several rows, `stride` words apart. A single mask serves all rows.
class token_masks {
public:
    token_masks() = default;
    /// `masks` masks; that of row r begins at `words + r * stride`, and has `stride` words.
    template <detail::mask_word Word>
    MULTIDRAFT_HD token_masks(Word const* words, std::int64_t masks, std::int64_t stride) noexcept
        : words_(words), masks_(masks), step_(stride * static_cast<std::int64_t>(sizeof(Word) / 4)) {}
    /// The masks in a contiguous range of words: as many as it has whole strides.
    template <detail::mask_words R>
    token_masks(R const& words, std::int64_t stride) noexcept
        : token_masks(std::ranges::data(words),
                      stride < 1 ? 0 : static_cast<std::int64_t>(std::ranges::size(words)) / stride, stride) {}

    /// Whether there are no words, so that no token is forbidden.
    [[nodiscard]] MULTIDRAFT_HD bool empty() const noexcept { return words_ == nullptr; }
    /// How many masks there are.
    [[nodiscard]] MULTIDRAFT_HD std::int64_t masks() const noexcept { return masks_; }
    /// How many tokens a mask has bits for.
    [[nodiscard]] MULTIDRAFT_HD std::int64_t tokens() const noexcept { return step_ * 32; }
    /// Whether there is a mask with this number.
    [[nodiscard]] MULTIDRAFT_HD bool has(std::int64_t row) const noexcept {
        return empty() || masks_ == 1 || (row >= 0 && row < masks_);
    }
    /// The mask of one row; without words, one that allows every token.
    [[nodiscard]] MULTIDRAFT_HD token_mask operator()(std::int64_t row) const noexcept {
        if (words_ == nullptr) return {};
        return {static_cast<std::uint32_t const*>(words_) + (masks_ == 1 ? 0 : row * step_),
                static_cast<std::size_t>(step_)};
    }

private:
    void const* words_ = nullptr;
    std::int64_t masks_ = 0;
    std::int64_t step_ = 0;  ///< in words of 32 bits
};

/// Throws `invalid_input` on the host unless there are masks of V tokens for `rows` rows, or one for all.
inline void validate(token_masks const& allowed, std::int64_t rows, index_t vocabulary) {
    if (allowed.empty()) return;
    if (allowed.tokens() < vocabulary)
        refuse("allowed.tokens", allowed.tokens(),
               "a mask has a bit for each of the " + std::to_string(vocabulary) + " tokens");
    if (allowed.masks() != 1 && allowed.masks() < rows)
        refuse("allowed.masks", allowed.masks(), "there is a mask for each of the " + std::to_string(rows) + " rows");
}

}  // namespace MULTIDRAFT_NAMESPACE
