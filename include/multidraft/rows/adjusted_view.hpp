// Masks and biases of rows of logits, applied as they are read: nothing is copied, nothing is written.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/group/runs.hpp"
#include "multidraft/rows/distribution.hpp"

namespace MULTIDRAFT_NAMESPACE {

namespace detail {

/// The integer types of mask words: 32 or 64 bits, signed or unsigned.
template <class Word>
concept mask_word = std::integral<Word> &&(sizeof(Word) == 4 || sizeof(Word) == 8);

/// The ranges of such words.
template <class R>
concept mask_words =
    std::ranges::contiguous_range<R> && std::ranges::sized_range<R> && mask_word<std::ranges::range_value_t<R>>;

/// The words of a range: not null even where it is empty, which is a mask that is too short and not the absence of one.
template <mask_words R>
[[nodiscard]] auto const* words_of(R const& range) noexcept {
    static constexpr std::ranges::range_value_t<R> no_word{};
    return std::ranges::empty(range) ? &no_word : std::ranges::data(range);
}

}  // namespace detail

/// One bit for each token: 1 where the token is allowed. A view of the caller's words. The default, like a null
/// pointer, is no mask: all tokens are allowed. An empty range of words is a mask that is too short, which rows refuse.
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
    explicit token_mask(R const& words) noexcept : token_mask(detail::words_of(words), std::ranges::size(words)) {}

    /// Whether there is no mask, so that no token is forbidden.
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
        MULTIDRAFT_COPY_BYTES(&result, at, 4);
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
    /// The masks in a contiguous range of words: as many as it has whole strides. Of an empty range these are no masks
    /// for some rows, which is refused; only the default, and a null pointer, mean rows without masks.
    template <detail::mask_words R>
    token_masks(R const& words, std::int64_t stride) noexcept
        : token_masks(detail::words_of(words),
                      stride < 1 ? 0 : static_cast<std::int64_t>(std::ranges::size(words)) / stride, stride) {}

    /// Whether there are no masks, so that no token is forbidden.
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

/// `values[k]` is added to the logit of token `tokens[k]`; tokens rise. A view of the caller's arrays.
///
/// Added in the type that the row is computed in, float or double, before anything else: x_i + b_i. Minus infinity
/// forbids a token. Penalties are such a bias, computed by the engine from the text. With c_i the number of times that
/// token i occurs in it:
///
/// - frequency and presence penalty: b_i = -c_i * frequency - (c_i > 0) * presence;
/// - repetition penalty r: for tokens of the text b_i = x_i / r - x_i where x_i > 0, else b_i = x_i * r - x_i ([CTRL]
///   Section 4.1 divides all; engines multiply logits that are not positive).
///
/// In a draft tree the text of a node is that of the request and of its path, so nodes have different penalties. Target
/// and draft need not have the same bias: the target's determines the law of the text.
struct logit_bias {
    span<token_id const> tokens{};
    span<float const> values{};

    /// Whether no logit is changed.
    [[nodiscard]] MULTIDRAFT_HD bool empty() const noexcept { return tokens.empty(); }
    [[nodiscard]] MULTIDRAFT_HD std::size_t size() const noexcept { return tokens.size(); }
    /// The number of tokens below i.
    [[nodiscard]] MULTIDRAFT_HD std::size_t before(index_t i) const noexcept {
        return detail::entries_below(tokens, i);
    }
    /// The part that concerns the tokens from `begin` to `end`.
    [[nodiscard]] MULTIDRAFT_HD logit_bias part(index_t begin, index_t end) const noexcept {
        std::size_t const first = before(begin);
        std::size_t const last = before(end);
        return {tokens.subspan(first, last - first), values.subspan(first, last - first)};
    }
};

/// The biases of several rows: row r has the entries `offsets[r]` to `offsets[r + 1]` of the other arrays. No offsets:
/// one bias for all rows.
struct logit_biases {
    span<token_id const> tokens{};
    span<float const> values{};
    span<std::int64_t const> offsets{};

    /// Whether no logit of any row is changed.
    [[nodiscard]] MULTIDRAFT_HD bool empty() const noexcept { return tokens.empty(); }
    /// The bias of one row; the same for all rows where there are no offsets.
    [[nodiscard]] MULTIDRAFT_HD logit_bias operator()(std::int64_t row) const noexcept {
        if (offsets.empty()) return {tokens, values};
        auto const first = static_cast<std::size_t>(offsets[row]);
        auto const last = static_cast<std::size_t>(offsets[row + 1]);
        return {tokens.subspan(first, last - first), values.subspan(first, last - first)};
    }
};

/// Throws `invalid_input` naming the array, the index and the value unless the biases are those of `rows` rows of V
/// tokens: as many values as tokens, nondecreasing offsets, tokens of the vocabulary that increase within a row. Values
/// are not checked: NaN or plus infinity is reported when the row is read. O(tokens).
inline void validate(logit_biases const& bias, std::int64_t rows, index_t vocabulary) {
    if (bias.values.size() != bias.tokens.size())
        refuse("bias.values.size", bias.values.size(),
               "there is one value a token: " + std::to_string(bias.tokens.size()));
    auto const all = static_cast<std::int64_t>(bias.tokens.size());
    if (!bias.offsets.empty()) {
        if (bias.offsets.size() != static_cast<std::size_t>(rows) + 1)
            refuse("bias.offsets.size", bias.offsets.size(),
                   "there is one offset a row and one more: " + std::to_string(rows + 1));
        for (std::size_t r = 0; r < bias.offsets.size(); ++r)
            if (bias.offsets[r] < (r == 0 ? 0 : bias.offsets[r - 1]) || bias.offsets[r] > all)
                refuse("bias.offsets", static_cast<std::int64_t>(r), bias.offsets[r],
                       "offsets do not fall, and lie within the tokens");
    }
    for (std::int64_t r = 0; r < (bias.offsets.empty() ? 1 : rows); ++r) {
        logit_bias const of_row = bias(r);
        std::size_t const k = detail::first_out_of_order(of_row.tokens, vocabulary);
        if (k < of_row.size())
            refuse("bias.tokens", of_row.tokens.data() - bias.tokens.data() + static_cast<std::ptrdiff_t>(k),
                   of_row.tokens[k], "the tokens of a row's bias are of the vocabulary and rise");
    }
}

/// The masks and biases of the rows of a tree or of a batch. Either may be left out, for all nodes or for some.
///
/// Node i, in a batch numbered across all requests, has the mask `allowed(allowed_of[i])` and the bias
/// `bias(bias_of[i])`: none where that index is negative. Where the array is null it is index i, or the only one there
/// is. So one mask may serve many nodes, and requests without a grammar have none. The arrays are in memory of the
/// machine that reads the rows.
struct logit_adjustments {
    token_masks allowed{};
    std::int64_t const* allowed_of = nullptr;  ///< may be null
    logit_biases bias{};
    std::int64_t const* bias_of = nullptr;  ///< may be null

    /// The index of the mask of node i; negative: it has none.
    [[nodiscard]] MULTIDRAFT_HD std::int64_t mask_number(std::int64_t i) const noexcept {
        if (allowed.empty()) return -1;
        if (allowed_of != nullptr) return allowed_of[i];
        return allowed.masks() == 1 ? 0 : i;
    }
    /// Whether node i has no mask, or one of those there are.
    [[nodiscard]] MULTIDRAFT_HD bool has_mask(std::int64_t i) const noexcept {
        return mask_number(i) < allowed.masks();
    }
    /// The mask of node i.
    [[nodiscard]] MULTIDRAFT_HD token_mask mask(std::int64_t i) const noexcept {
        std::int64_t const r = mask_number(i);
        return r < 0 ? token_mask{} : allowed(r);
    }
    /// The index of the bias of node i; negative: it has none.
    [[nodiscard]] MULTIDRAFT_HD std::int64_t bias_number(std::int64_t i) const noexcept {
        if (bias.empty()) return -1;
        if (bias_of != nullptr) return bias_of[i];
        return bias.offsets.empty() ? 0 : i;
    }
    /// The bias of node i.
    [[nodiscard]] MULTIDRAFT_HD logit_bias bias_at(std::int64_t i) const noexcept {
        std::int64_t const r = bias_number(i);
        return r < 0 ? logit_bias{} : bias(r);
    }
};

/// Throws `invalid_input` on the host unless the masks and biases are those of `rows` rows of V tokens, by their
/// indices where there are some. O(tokens with a bias + rows).
inline void validate(logit_adjustments const& adjustments, std::int64_t rows, index_t vocabulary) {
    bool const by_index = adjustments.bias_of != nullptr;
    std::int64_t const listed = static_cast<std::int64_t>(adjustments.bias.offsets.size()) - 1;
    std::int64_t const biases = !by_index ? rows : listed < 0 ? 1 : listed;
    validate(adjustments.allowed, adjustments.allowed_of == nullptr ? rows : 0, vocabulary);
    validate(adjustments.bias, biases, vocabulary);
    for (std::int64_t i = 0; i < rows; ++i) {
        if (!adjustments.has_mask(i))
            refuse("allowed_of", i, adjustments.mask_number(i), "the mask of a node is one of those there are");
        if (std::int64_t const r = adjustments.bias_number(i); by_index && r >= biases)
            refuse("bias_of", i, r, "the bias of a node is one of those there are");
    }
}

namespace detail {

/// x plus the bias of token i, if it has one. On a device a function of its own: inlined, the search would be repeated
/// for each entry of an unrolled loop over a row, and be most of a kernel.
template <class Real>
#if defined(__CUDA_ARCH__)
__noinline__
#endif
    [[nodiscard]] MULTIDRAFT_HD Real
    biased(Real x, index_t i, logit_bias bias) noexcept {
    std::size_t const k = bias.before(i);
    return k < bias.size() && bias.tokens[k] == i ? x + static_cast<Real>(bias.values[k]) : x;
}

}  // namespace detail

/// A row whose entries are x_i + b_i where the mask allows token i, and minus infinity elsewhere, whatever x_i is.
///
/// `View` is a `row_view` or another row of logits. Every operation of every group gives the same bits as for a row
/// that was changed beforehand. The host group reads a mask a word at a time and applies the bias only where there is
/// one (`has_runs`). Runs whose tokens are all allowed are read as they are; runs with no allowed token are not read.
/// Other groups test the bit of each entry and search the bias for it: O(log of the number of biased tokens) an entry.
template <class View>
class adjusted_view {
public:
    using real = typename View::real;

    adjusted_view() = default;
    /// The row with the tokens that the mask forbids at minus infinity and with the bias added to the others. On the
    /// host a mask without a bit for each token, and a bias that `validate` refuses, are an `invalid_input`.
    MULTIDRAFT_HD adjusted_view(View row, token_mask allowed, logit_bias bias = {})
        : adjusted_view(unchecked(row, allowed, bias)) {
#if !MULTIDRAFT_ON_DEVICE
        if (!allowed.empty() && allowed.tokens() < row.size())
            refuse("allowed.tokens", allowed.tokens(),
                   "a mask has a bit for each of the " + std::to_string(row.size()) + " tokens");
        validate(logit_biases{bias.tokens, bias.values}, 1, row.size());
#endif
    }
    /// The same where mask and bias are known to be those of the row: nothing is checked.
    [[nodiscard]] static MULTIDRAFT_HD adjusted_view unchecked(View row, token_mask allowed, logit_bias bias) noexcept {
        adjusted_view result;
        result.row_ = row;
        result.allowed_ = allowed;
        result.bias_ = bias;
        return result;
    }

    [[nodiscard]] MULTIDRAFT_HD index_t size() const noexcept { return row_.size(); }
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD real operator()(index_t i) const noexcept {
        real x = row_(i);
        if (!bias_.empty()) x = detail::biased(x, i, bias_);
        return allowed_(i) ? x : minus_infinity<real>;
    }
    /// Whether the mask allows a token.
    [[nodiscard]] MULTIDRAFT_HD bool allows(index_t i) const noexcept { return allowed_(i); }

    /// See `has_runs`.
    [[nodiscard]] MULTIDRAFT_HD adjusted_view in_chunk(index_t begin, index_t end) const noexcept {
        adjusted_view result = *this;
        if (bias_.empty()) return result;
        result.bias_ = bias_.part(begin, end);
        result.chunk_ = begin;
        result.biased_runs_ = 0;
        for (token_id const x : result.bias_.tokens)
            result.biased_runs_ |= std::uint64_t{1} << ((x - begin) / run_length % 64);
        return result;
    }
    /// See `has_runs`.
    [[nodiscard]] MULTIDRAFT_HD bool is_empty_run(index_t) const noexcept { return false; }
    /// See `has_runs`.
    template <class Body>
    MULTIDRAFT_INLINE MULTIDRAFT_HD void on_run(index_t begin, index_t end, Body const& body) const {
        std::uint64_t const bits = allowed_.bits(begin, end);
        bool const has_bias =
            !bias_.empty() && (chunk_ == none || (biased_runs_ >> ((begin - chunk_) / run_length % 64) & 1U) != 0);
        if (bits == ~std::uint64_t{0} && !has_bias) {
            body(row_);
            return;
        }
        if (bits == 0) {
            body(forbidden(row_.size()));
            return;
        }
        real values[static_cast<std::size_t>(run_length)];
        if (end - begin == run_length) {
            write_half(begin, static_cast<std::uint32_t>(bits), values);
            write_half(begin + 32, static_cast<std::uint32_t>(bits >> 32), values + 32);
        } else {
            for (index_t i = begin; i < end; ++i) values[i - begin] = allowed_(i) ? row_(i) : minus_infinity<real>;
        }
        if (has_bias) add_bias(begin, end, values);
        body(run_values<real>(values, begin, row_.size()));
    }

private:
    using bits_of_real = std::conditional_t<sizeof(real) == 4, std::uint32_t, std::uint64_t>;

    /// A run with no allowed token.
    class forbidden {
    public:
        using real = typename View::real;
        forbidden() = default;
        MULTIDRAFT_HD explicit forbidden(index_t size) noexcept : size_(size) {}
        [[nodiscard]] MULTIDRAFT_HD index_t size() const noexcept { return size_; }
        [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD real operator()(index_t) const noexcept {
            return minus_infinity<real>;
        }

    private:
        index_t size_ = 0;
    };

    /// 32 entries; those whose bit is 0 become minus infinity. Written with masks so that compilers vectorise it.
    MULTIDRAFT_INLINE MULTIDRAFT_HD void write_half(index_t begin, std::uint32_t allowed, real* values) const noexcept {
        constexpr auto nothing = __builtin_bit_cast(bits_of_real, minus_infinity<real>);
        bits_of_real x[32];
        for (index_t l = 0; l < 32; ++l) x[l] = __builtin_bit_cast(bits_of_real, row_(begin + l));
        for (index_t l = 0; l < 32; ++l) {
            bits_of_real const keep = bits_of_real(0) - static_cast<bits_of_real>(allowed >> l & 1U);
            values[l] = __builtin_bit_cast(real, static_cast<bits_of_real>(nothing ^ ((nothing ^ x[l]) & keep)));
        }
    }

    MULTIDRAFT_HD void add_bias(index_t begin, index_t end, real* values) const noexcept {
        for (std::size_t k = bias_.before(begin); k < bias_.size() && bias_.tokens[k] < end; ++k) {
            token_id const i = bias_.tokens[k];
            if (allowed_(i)) values[i - begin] += static_cast<real>(bias_.values[k]);
        }
    }

    View row_{};
    token_mask allowed_{};
    logit_bias bias_{};
    std::uint64_t biased_runs_ = 0;  ///< the runs of the chunk that have a biased token
    index_t chunk_ = none;           ///< where the chunk begins, once there is one
};

}  // namespace MULTIDRAFT_NAMESPACE
