// Inputs and weights of 8 bits as the kernels of products read them.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "transformer/product.hpp"
#include "transformer/vectors.hpp"

namespace multidraft::examples::product {
namespace {

using namespace kernels;
using bytes = std::int8_t __attribute__((vector_size(lanes)));

/// The nearest bfloat16, as a float.
MULTIDRAFT_INLINE floats as_bfloat16(floats v) {
    words const bits = __builtin_convertvector(rounded(v), words) << 16;
    floats nearest;
    std::memcpy(&nearest, &bits, sizeof nearest);
    return nearest;
}

struct layout {
    input_form form;
    std::int32_t step;
    bool rounded;
};

MULTIDRAFT_INLINE void store_step(layout const& as, float const* from, std::byte* to) {
    floats const a = load(from);
    if (as.form == input_form::pairs || as.form == input_form::tiles) {
        auto* const halves_at = reinterpret_cast<bfloat16*>(to);
        store(halves_at, a);
        store(halves_at + lanes, load(from + lanes));
    } else {
        store(reinterpret_cast<float*>(to), as.rounded ? as_bfloat16(a) : a);
    }
}

MULTIDRAFT_EXAMPLE_CLONES
void store_rows(layout const& as, float const* rows, std::size_t stride, std::int32_t count, std::int32_t inputs,
                std::byte* to) {
    std::int32_t const whole = inputs - inputs % as.step;
    for (std::int32_t at = 0; at < whole; at += as.step)
        for (std::int32_t r = 0; r < count; ++r, to += 64)
            store_step(as, rows + static_cast<std::size_t>(r) * stride + at, to);
    if (whole == inputs) return;
    for (std::int32_t r = 0; r < count; ++r, to += 64) {
        std::array<float, 32> rest{};
        std::copy_n(rows + static_cast<std::size_t>(r) * stride + whole, inputs - whole, rest.begin());
        store_step(as, rest.data(), to);
    }
}

/// The nearest integer, ties to even: added to 1.5 * 2^23 a number is rounded to one, in the lowest bits.
MULTIDRAFT_INLINE ints nearest_integers(floats v) {
    floats const shifted = v + 12582912.0F;
    ints bits;
    std::memcpy(&bits, &shifted, sizeof bits);
    return bits - 0x4b400000;
}

/// In two steps: g++ does it lane by lane in one.
MULTIDRAFT_INLINE bytes narrowed(ints v) {
    using shorts = std::int16_t __attribute__((vector_size(2 * lanes)));
    return __builtin_convertvector(__builtin_convertvector(v, shorts), bytes);
}

/// All lanes of integers in one, by halves.
template <class F>
MULTIDRAFT_INLINE std::int32_t folded(ints v, F const& f) {
    using eight = std::int32_t __attribute__((vector_size(32)));
    using four = std::int32_t __attribute__((vector_size(16)));
    eight h[2];
    std::memcpy(h, &v, sizeof h);
    eight const of_eight = f(h[0], h[1]);
    four q[2];
    std::memcpy(q, &of_eight, sizeof q);
    four const x = f(q[0], q[1]);
    std::int32_t const a = f(x[0], x[2]);
    std::int32_t const b = f(x[1], x[3]);
    return f(a, b);
}

/// A block of inputs in 8 bits; `least` is that of the weights' integers, or 0 if they have one of their own. If there
/// is no number, or an infinite one, its scale is none either, and so no sum becomes a number.
MULTIDRAFT_INLINE void store_byte_block(float const* from, std::int32_t least, std::byte* to) {
    floats const x[2] = {load(from), load(from + lanes)};
    // Magnitudes are in order as integers, and what is no number comes last.
    ints most{};
    for (floats const& v : x) {
        ints size;
        std::memcpy(&size, &v, sizeof size);
        size &= 0x7fffffff;
        most = size > most ? size : most;
    }
    std::int32_t const all = folded(most, [](auto a, auto b) { return a > b ? a : b; });
    float largest;
    std::memcpy(&largest, &all, sizeof largest);
    float scale = largest / 127;
    float const inverse = 1 / scale;
    bool const in_range = inverse <= std::numeric_limits<float>::max() && inverse > 0;
    if (scale < std::numeric_limits<float>::min()) scale = 0;
    ints sums{};
    for (std::int32_t i = 0; i < 2; ++i) {
        ints const y = in_range ? nearest_integers(x[i] * inverse) : ints{};
        bytes const stored = narrowed(y);
        std::memcpy(to + std::ptrdiff_t{i} * lanes, &stored, sizeof stored);
        sums += y;
    }
    std::int32_t const sum = folded(sums, [](auto a, auto b) { return a + b; });
    std::memcpy(to + byte_block_scale, &scale, sizeof scale);
    if (least == 0) {
        float const offset = scale * static_cast<float>(sum);
        std::memcpy(to + byte_block_offset, &offset, sizeof offset);
    } else {
        std::int32_t const offset = least * sum;
        std::memcpy(to + byte_block_offset, &offset, sizeof offset);
    }
}

MULTIDRAFT_EXAMPLE_CLONES
void store_byte_rows(std::int32_t least, float const* rows, std::size_t stride, std::int32_t count, std::int32_t inputs,
                     std::byte* to) {
    for (std::int32_t at = 0; at < inputs; at += block_inputs)
        for (std::int32_t r = 0; r < count; ++r, to += byte_block_bytes)
            store_byte_block(rows + static_cast<std::size_t>(r) * stride + at, least, to);
}

/// The least integer of a type's weights.
std::int32_t least_integer(weight_type type) {
    return type == weight_type::q8_0 ? -128 : type == weight_type::q4_0 ? -8 : 0;
}

/// The largest magnitude, and with a factor for it the nearest integers.
MULTIDRAFT_EXAMPLE_CLONES
float largest(float const* numbers, std::int32_t n) {
    floats most{};
    for (std::int32_t i = 0; i < n; i += lanes) {
        floats const x = load(numbers + i, n - i);
        floats const size = x < 0.0F ? -x : x;
        most = size > most ? size : most;
    }
    float all = 0;
    for (std::int32_t l = 0; l < lanes; ++l) all = std::max(all, most[l]);
    return all;
}

MULTIDRAFT_EXAMPLE_CLONES
void nearest_integers(float const* numbers, std::int32_t n, float factor, std::int8_t* to) {
    for (std::int32_t i = 0; i < n; i += lanes) {
        bytes const integers = narrowed(nearest_integers(load(numbers + i, n - i) * factor));
        std::memcpy(to + i, &integers, sizeof integers);
    }
}

/// A number of at most 7 bits as the sign and the magnitude.
std::byte signed_magnitude(std::int8_t number) { return static_cast<std::byte>(number < 0 ? 0x80 | -number : number); }

/// The integers of a row in 8 bits, and their scale. A row of zeros, or of numbers so small that the quotient would
/// overflow, becomes zeros.
float quantise(float const* row, std::int32_t inputs, std::int8_t* to) {
    float const scale = largest(row, inputs) / 127;
    float const factor = std::isfinite(1 / scale) ? 1 / scale : 0;
    std::int32_t const whole = inputs - inputs % lanes;
    nearest_integers(row, whole, factor, to);
    std::array<std::int8_t, lanes> rest{};
    nearest_integers(row + whole, inputs - whole, factor, rest.data());
    std::copy_n(rest.begin(), inputs - whole, to + whole);
    return factor == 0 ? 0 : scale;
}

/// Of each pair of inputs, the second ones of all outputs, then the first ones: as multiply-adds take them.
template <class Number>
void store_apart(std::vector<Number> const& rows, std::int32_t padded, std::byte* to) {
    auto* at = reinterpret_cast<Number*>(to);
    for (std::int32_t k = 0; k < padded; k += 2)
        for (std::int32_t const input : {k + 1, k})
            for (std::int32_t n = 0; n < panel; ++n) *at++ = rows[static_cast<std::size_t>(n * padded + input)];
}

/// Of each pair of inputs, both for each output: as dot products take them.
void store_pairs(std::vector<std::uint16_t> const& rows, std::int32_t padded, std::byte* to) {
    auto* at = reinterpret_cast<std::uint16_t*>(to);
    for (std::int32_t k = 0; k < padded; k += 2)
        for (std::int32_t n = 0; n < panel; ++n, at += 2) std::copy_n(rows.begin() + n * padded + k, 2, at);
}

/// Two pairs of inputs in 64 bytes, in the order in which the bytes of two vectors are interleaved: of every 16 bytes,
/// 8 for the first pair, then 8 for the second.
void store_interleaved(std::vector<std::int8_t> const& rows, std::int32_t padded, std::byte* to) {
    for (std::int32_t k = 0; k < padded; k += 4, to += 64) {
        for (std::int32_t i = 0; i < 32; ++i) {
            std::int32_t const from = i / 2 * padded + k + i % 2;
            std::byte* const place = to + i / 8 * 16 + i % 8;
            place[0] = signed_magnitude(rows[static_cast<std::size_t>(from)]);
            place[8] = signed_magnitude(rows[static_cast<std::size_t>(from + 2)]);
        }
    }
}

/// `count` rows, each converted by `f(row, to)`, and zeros up to a panel of `padded` inputs.
template <class Number, class F>
std::vector<Number> panel_of(std::int32_t count, std::int32_t padded, F const& f) {
    std::vector<Number> all(static_cast<std::size_t>(panel) * static_cast<std::size_t>(padded));
    for (std::int32_t n = 0; n < count; ++n)
        f(n, all.data() + static_cast<std::size_t>(n) * static_cast<std::size_t>(padded));
    return all;
}

}  // namespace

void store_panel(kernel const& k, float const* rows, std::int32_t count, std::int32_t inputs, std::byte* to,
                 float* scales) {
    std::int32_t const padded = steps(k, inputs) * k.step();
    auto const row = [&](std::int32_t n) {
        return rows + static_cast<std::size_t>(n) * static_cast<std::size_t>(inputs);
    };
    switch (k.weights) {
        case weight_type::f32:
            store_apart(
                panel_of<float>(count, padded, [&](std::int32_t n, float* at) { std::copy_n(row(n), inputs, at); }),
                padded, to);
            break;
        case weight_type::bf16:
            store_pairs(panel_of<std::uint16_t>(count, padded,
                                                [&](std::int32_t n, std::uint16_t* at) {
                                                    kernels::round(row(n), static_cast<std::size_t>(inputs),
                                                                   reinterpret_cast<bfloat16*>(at));
                                                }),
                        padded, to);
            break;
        case weight_type::int8: {
            auto const integers = panel_of<std::int8_t>(
                count, padded, [&](std::int32_t n, std::int8_t* at) { scales[n] = quantise(row(n), inputs, at); });
            if (k.inputs == input_form::pairs)
                store_interleaved(integers, padded, to);
            else
                store_apart(integers, padded, to);
            break;
        }
        case weight_type::q8_0:
        case weight_type::q4_0:
        case weight_type::q4_1:
            break;  // by `store_blocks`
    }
}

void pack(kernel const& k, float const* rows, std::size_t stride, std::int32_t count, std::int32_t inputs, bool rounded,
          std::byte* to) {
    pack_groups(k, rows, stride, count, inputs, rounded, to, 0, groups_of(k, count).count);
}

void pack_groups(kernel const& k, float const* rows, std::size_t stride, std::int32_t count, std::int32_t inputs,
                 bool rounded, std::byte* to, std::int32_t first, std::int32_t last) {
    row_groups const groups = groups_of(k, count);
    std::size_t const row_bytes = packed_bytes(k, inputs, 1);
    for (std::int32_t g = first; g < last; ++g) {
        auto const begin = static_cast<std::size_t>(groups.begin(g));
        float const* const from = rows + begin * stride;
        std::byte* const there = to + begin * row_bytes;
        if (k.inputs == input_form::bytes)
            store_byte_rows(least_integer(k.weights), from, stride, groups.size(g), inputs, there);
        else
            store_rows({k.inputs, k.step(), rounded}, from, stride, groups.size(g), inputs, there);
    }
}

}  // namespace multidraft::examples::product
