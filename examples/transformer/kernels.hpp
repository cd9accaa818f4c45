// The loops between a transformer's matrix products: norms, rotary positions, attention, the gate, large entries.
//
// Each works on one token and gives the same bits whatever else is in the batch. A sum is over the token's own numbers
// (for attention: over the sequence of the entries that it attends to), in an order that depends on their count alone.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace multidraft::examples::kernels {

/// A bfloat16 number as its bits.
enum class bfloat16 : std::uint16_t {};

/// Rounds to the nearest bfloat16, ties to even.
[[nodiscard]] inline bfloat16 to_bfloat16(float value) noexcept {
    auto const bits = std::bit_cast<std::uint32_t>(value);
    return static_cast<bfloat16>((bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U);
}

[[nodiscard]] inline float to_float(bfloat16 number) noexcept {
    return std::bit_cast<float>(static_cast<std::uint32_t>(number) << 16U);
}

/// A half of IEEE 754, 11 significant bits, as its bits.
enum class half : std::uint16_t {};

[[nodiscard]] inline float to_float(half number) noexcept {
    auto const bits = static_cast<std::uint32_t>(number);
    std::uint32_t const sign = (bits & 0x8000U) << 16U;
    std::uint32_t const magnitude = bits & 0x7fffU;
    if (magnitude >= 0x7c00U)  // infinity, not a number
        return std::bit_cast<float>(sign | 0x7f800000U | ((magnitude & 0x3ffU) << 13U));
    if (magnitude < 0x400U) {  // a multiple of 2^-24
        float const value = static_cast<float>(magnitude) * 0x1p-24F;
        return sign != 0 ? -value : value;
    }
    return std::bit_cast<float>(sign | ((magnitude << 13U) + (112U << 23U)));
}

/// Rounds n numbers.
void round(float const* from, std::size_t n, bfloat16* to);

/// Rounds n numbers to the nearest halves, ties to even. Those beyond the largest half, 65504, become it.
void round(float const* from, std::size_t n, half* to);

/// The entries of a cache, or of a batch, from `first` on, `count` of them.
struct run {
    std::int32_t first;
    std::int32_t count;
};

inline constexpr std::int32_t lanes = 16;  ///< numbers handled at a time

[[nodiscard]] constexpr std::int32_t round_up(std::int32_t n, std::int32_t multiple) noexcept {
    return (n + multiple - 1) / multiple * multiple;
}

/// x += add (unless null), then out = x / sqrt(mean(x^2) + eps) * weight.
void norm(float* x, float const* add, float const* weight, std::int32_t n, float eps, float* out);

/// out = silu(gate) * up, with n gates followed by n ups.
void gated(float const* gate_up, std::int32_t n, float* out);

/// Rotates one head in place: halves (a, b) become (a cos - b sin, b cos + a sin).
void rotate(float* head, float const* cosines, float const* sines, std::int32_t half);

/// How a cache stores its numbers.
enum class cache_numbers : std::uint8_t { floats, halves };

/// The cache that tokens attend to, for one layer and one key-value head.
///
/// Keys lie transposed in groups of `lanes` entries, `keys[(entry / lanes) * head_dim * lanes + d * lanes + entry %
/// lanes]`, so that the scores of neighbouring entries are the lanes of a vector and none depends on the position of
/// its entry. Values are stored entry by entry, each padded with zeros to a multiple of `lanes`.
struct attention_view {
    void const* keys;
    void const* values;
    std::int32_t head_dim;
    float scale;  ///< of the scores, 1 / sqrt(head_dim)
    cache_numbers numbers = cache_numbers::floats;
};

/// A token's attention for the query heads that share a key-value head: `queries` and `out` hold them one after the
/// other.
struct token_attention {
    float const* queries;
    float* out;
    run const* attended;  ///< in order, at least one entry in each
    std::size_t runs;
};

/// Queries, heads of a token or of several, that `attend` takes together at most.
inline constexpr std::int32_t queries_together = 6;

/// Floats of scratch that `attend` needs with a cache of that capacity.
[[nodiscard]] constexpr std::size_t attention_scratch(std::int32_t capacity, std::int32_t head_dim) noexcept {
    return queries_together * static_cast<std::size_t>(round_up(capacity, lanes) + 2 * round_up(head_dim, lanes));
}

/// The attention of tokens of one sequence, for `heads` query heads that share a key-value head. Each number of the
/// cache is read once for several tokens. Keys are read up to the next multiple of `lanes` entries.
void attend(attention_view const& cache, std::span<token_attention const> tokens, std::int32_t heads, float* scratch);

/// Adds n numbers to others.
void add(float const* from, std::size_t n, float* to);

/// Of each of so many sets of a row's entries, set i of the entries i, i + sets and so on, the largest. False where an
/// entry is not a number.
[[nodiscard]] bool maxima(std::span<float const> row, std::span<float> of_sets);

/// How many of some numbers are not less than a bound.
[[nodiscard]] std::size_t count_from(std::span<float const> numbers, float bound);

/// Places and values of the entries that are not less than a bound, in their order: how many there are. There must be
/// room for `lanes` more.
[[nodiscard]] std::size_t collect_from(std::span<float const> row, float bound, std::int32_t* places, float* values);

}  // namespace multidraft::examples::kernels
