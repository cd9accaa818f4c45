// The loops of `kernels`, written once over the vectors of an instruction set.
//
// 16 numbers, `floats`, are as many vectors as the instruction set needs: g++ keeps wider ones than it has in memory.
// Everything here has internal linkage and calls no inline function of the standard library: the files that include
// this are compiled for different instruction sets, and the linker must not use the code of one in another.
#pragma once

#include <cstddef>
#include <cstdint>

#include "multidraft/base/config.hpp"
#include "transformer/kernel_table.hpp"
#include "transformer/unroll.hpp"

// Vectors are passed between inlined functions only, never through an ABI.
#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

namespace multidraft::examples::kernels {
namespace {

#if defined(__AVX512F__)
constexpr std::int32_t vector_lanes = 16;
constexpr std::int32_t vectors_of_sums = 16;  ///< that the registers hold beside the operands
#elif defined(__AVX2__)
constexpr std::int32_t vector_lanes = 8;
constexpr std::int32_t vectors_of_sums = 8;
#elif defined(__aarch64__)
constexpr std::int32_t vector_lanes = 4;
constexpr std::int32_t vectors_of_sums = 16;
#else
constexpr std::int32_t vector_lanes = 4;
constexpr std::int32_t vectors_of_sums = 8;
#endif
constexpr std::int32_t parts = lanes / vector_lanes;

using vector = float __attribute__((vector_size(4 * vector_lanes)));
using integers = std::int32_t __attribute__((vector_size(4 * vector_lanes)));
using words = std::uint32_t __attribute__((vector_size(4 * vector_lanes)));
using halves = std::uint16_t __attribute__((vector_size(2 * vector_lanes)));

/// 16 numbers; lane i is lane i % vector_lanes of part i / vector_lanes.
struct floats {
    vector of[parts];
};

constexpr std::size_t count_of(std::int32_t n) { return static_cast<std::size_t>(n); }
constexpr std::int32_t smaller(std::int32_t a, std::int32_t b) { return a < b ? a : b; }

MULTIDRAFT_INLINE vector splat(float value) { return vector{} + value; }

MULTIDRAFT_INLINE vector load_vector(float const* from) {
    vector v;
    __builtin_memcpy(&v, from, sizeof v);
    return v;
}

MULTIDRAFT_INLINE void store_vector(float* to, vector v) { __builtin_memcpy(to, &v, sizeof v); }

/// `f` of each part of some numbers.
template <class F, class... Floats>
MULTIDRAFT_INLINE floats for_parts(F const& f, Floats const&... numbers) {
    floats out;
    MULTIDRAFT_EXAMPLE_UNROLL
    for (std::int32_t p = 0; p < parts; ++p) out.of[p] = f(numbers.of[p]...);
    return out;
}

/// Makes g++ load a vector once that is used several times; otherwise it loads it again for every use.
MULTIDRAFT_INLINE void keep_in_register(vector& v) {
#if defined(__AVX512F__) && defined(__GNUC__) && !defined(__clang__)
    asm("" : "+v"(v));
#elif defined(__AVX2__) && defined(__GNUC__) && !defined(__clang__)
    asm("" : "+x"(v));
#else
    static_cast<void>(v);
#endif
}

// Part by part: g++ copies a structure of vectors by halves of them.
MULTIDRAFT_INLINE floats load(float const* from) {
    floats v;
    MULTIDRAFT_EXAMPLE_UNROLL
    for (std::int32_t p = 0; p < parts; ++p) v.of[p] = load_vector(from + p * vector_lanes);
    return v;
}

MULTIDRAFT_INLINE void store(float* to, floats const& v) {
    MULTIDRAFT_EXAMPLE_UNROLL
    for (std::int32_t p = 0; p < parts; ++p) store_vector(to + p * vector_lanes, v.of[p]);
}

/// The first `count` lanes; the others are 0.
MULTIDRAFT_INLINE floats load(float const* from, std::int32_t count) {
    if (count >= lanes) return load(from);
    float all[lanes] = {};
    for (std::int32_t i = 0; i < count; ++i) all[i] = from[i];
    return load(all);
}

MULTIDRAFT_INLINE void store(float* to, floats const& v, std::int32_t count) {
    if (count >= lanes) return store(to, v);
    float all[lanes];
    store(all, v);
    for (std::int32_t i = 0; i < count; ++i) to[i] = all[i];
}

/// Lane i gets lane i ^ `by` of a vector.
template <std::int32_t by>
MULTIDRAFT_INLINE vector exchanged(vector v) {
    integers order;
    MULTIDRAFT_EXAMPLE_UNROLL
    for (std::int32_t i = 0; i < vector_lanes; ++i) order[i] = i ^ by;
#if defined(__clang__)
    vector out;
    for (std::int32_t i = 0; i < vector_lanes; ++i) out[i] = v[i ^ by];
    return out;
#else
    return __builtin_shuffle(v, order);
#endif
}

/// `f` pairwise over the lanes: of those 8 apart, then 4, 2 and 1.
template <class F>
MULTIDRAFT_INLINE float fold(floats v, F const& f) {
    MULTIDRAFT_EXAMPLE_UNROLL
    for (std::int32_t half = parts / 2; half > 0; half /= 2) {
        MULTIDRAFT_EXAMPLE_UNROLL
        for (std::int32_t p = 0; p < half; ++p) v.of[p] = f(v.of[p], v.of[p + half]);
    }
    vector one = v.of[0];
    if constexpr (vector_lanes > 8) one = f(one, exchanged<8>(one));
    if constexpr (vector_lanes > 4) one = f(one, exchanged<4>(one));
    one = f(one, exchanged<2>(one));
    one = f(one, exchanged<1>(one));
    return one[0];
}

MULTIDRAFT_INLINE vector larger(vector a, vector b) { return a > b ? a : b; }

MULTIDRAFT_INLINE float sum(floats const& v) {
    return fold(v, [](vector a, vector b) { return a + b; });
}

/// e^x within 1e-7 of its value for |x| <= 87; 0 below, e^87 above. 2^n times a polynomial on [-log(2)/2, log(2)/2].
MULTIDRAFT_INLINE vector exponential(vector x) {
    vector const clamped = x < -87.0F ? splat(-87.0F) : (x > 87.0F ? splat(87.0F) : x);
    vector const shifted = clamped * 1.44269504088896341F + 12582912.0F;  // 1.5 * 2^23: rounds to an integer
    vector const n = shifted - 12582912.0F;
    vector const r = (clamped - n * 0.693359375F) - n * -2.12194440e-4F;
    vector p = r * 1.9875691500e-4F + 1.3981999507e-3F;
    p = p * r + 8.3334519073e-3F;
    p = p * r + 4.1665795894e-2F;
    p = p * r + 1.6666665459e-1F;
    p = p * r + 5.0000001201e-1F;
    p = p * (r * r) + r + 1.0F;
    integers const power = (__builtin_convertvector(n, integers) + 127) << 23;
    vector scale;
    __builtin_memcpy(&scale, &power, sizeof scale);
    return x < -87.0F ? vector{} : p * scale;
}

/// How many of 16 sums at a time `H` heads have registers for: 1, 2 or 4.
constexpr std::int32_t sums_of(std::int32_t heads) {
    std::int32_t const most = vectors_of_sums / (heads * parts);
    return most >= 4 ? 4 : most >= 2 ? 2 : 1;
}

/// Fetches a cache line of the cache of keys and values: a long one is read from memory in every layer.
MULTIDRAFT_INLINE void fetch_line(float const* at) { __builtin_prefetch(at, 0, 2); }

/// The scores of `H` heads for `G` groups of 16 entries. Each score is one sum over d in order. The keys of the next
/// groups are fetched meanwhile.
template <std::int32_t H, std::int32_t G>
MULTIDRAFT_INLINE void score_groups(float const* keys, std::int32_t dim, float const* queries, float* scores,
                                    std::int32_t stride) {
    vector total[count_of(H)][count_of(G * parts)] = {};
    for (std::int32_t d = 0; d < dim; ++d) {
        MULTIDRAFT_EXAMPLE_UNROLL
        for (std::int32_t v = 0; v < G * parts; ++v) {
            float const* const at = keys + (v / parts * dim + d) * lanes + v % parts * vector_lanes;
            if (v % parts == 0) fetch_line(at + G * dim * lanes);
            vector key = load_vector(at);
            keep_in_register(key);
            MULTIDRAFT_EXAMPLE_UNROLL
            for (std::int32_t h = 0; h < H; ++h) total[h][v] += key * queries[h * dim + d];
        }
    }
    MULTIDRAFT_EXAMPLE_UNROLL
    for (std::int32_t h = 0; h < H; ++h) {
        MULTIDRAFT_EXAMPLE_UNROLL
        for (std::int32_t v = 0; v < G * parts; ++v) store_vector(scores + h * stride + v * vector_lanes, total[h][v]);
    }
}

/// The scores of `H` heads for the entries 0 .. `entries`, rounded up to whole blocks.
template <std::int32_t H>
MULTIDRAFT_INLINE void score(attention_view const& cache, float const* queries, std::int32_t entries, float* scores,
                             std::int32_t stride) {
    constexpr std::int32_t groups = sums_of(H);
    static_assert(key_block % (groups * lanes) == 0);
    for (std::int32_t e = 0; e < round_up(entries, key_block); e += groups * lanes)
        score_groups<H, groups>(cache.keys + static_cast<std::ptrdiff_t>(e) * cache.head_dim, cache.head_dim, queries,
                                scores + e, stride);
}

/// Replaces the first `count` scores by exp(scale * (score - largest)) and returns their sum. Lanes beyond `count` in
/// the last vector become 0.
MULTIDRAFT_INLINE float exponentials(float* scores, std::int32_t count, float scale) {
    std::int32_t const whole = round_up(count, lanes);
    for (std::int32_t i = count; i < whole; ++i) scores[i] = -__builtin_huge_valf();
    floats largest = load(scores);
    for (std::int32_t i = lanes; i < whole; i += lanes) largest = for_parts(larger, largest, load(scores + i));
    float const top = fold(largest, larger);
    floats total{};
    for (std::int32_t i = 0; i < whole; i += lanes) {
        floats const e = for_parts([&](vector s) { return exponential((s - top) * scale); }, load(scores + i));
        store(scores + i, e);
        total = for_parts([](vector a, vector b) { return a + b; }, total, e);
    }
    return sum(total);
}

/// How many entries ahead values are fetched.
constexpr std::ptrdiff_t entries_ahead = 24;

/// The weighted sums of 16 C numbers of the values for `H` heads, in the order of the attended entries; `out` has whole
/// vectors.
template <std::int32_t H, std::int32_t C>
MULTIDRAFT_INLINE void gather(attention_view const& cache, run const* attended, std::size_t runs, float const* weights,
                              std::int32_t stride, float const* totals, std::int32_t from, float* out) {
    std::int32_t const padded = round_up(cache.head_dim, lanes);
    vector total[count_of(H)][count_of(C * parts)] = {};
    for (std::size_t k = 0; k < runs; ++k) {
        float const* value = cache.values + static_cast<std::ptrdiff_t>(attended[k].first) * padded + from;
        for (std::int32_t i = 0; i < attended[k].count; ++i, ++weights, value += padded) {
            MULTIDRAFT_EXAMPLE_UNROLL
            for (std::int32_t v = 0; v < C * parts; ++v) {
                if (v % parts == 0) fetch_line(value + entries_ahead * padded + v * vector_lanes);
                vector entry = load_vector(value + v * vector_lanes);
                keep_in_register(entry);
                MULTIDRAFT_EXAMPLE_UNROLL
                for (std::int32_t h = 0; h < H; ++h) total[h][v] += entry * weights[h * stride];
            }
        }
    }
    MULTIDRAFT_EXAMPLE_UNROLL
    for (std::int32_t h = 0; h < H; ++h) {
        float const inverse = 1.0F / totals[h];
        MULTIDRAFT_EXAMPLE_UNROLL
        for (std::int32_t v = 0; v < C * parts; ++v)
            store_vector(out + h * padded + from + v * vector_lanes, total[h][v] * inverse);
    }
}

template <std::int32_t H>
MULTIDRAFT_INLINE void attend_heads(attention_view const& cache, float const* queries, run const* attended,
                                    std::size_t runs, float* scratch, float* out) {
    std::int32_t const entries = attended[runs - 1].first + attended[runs - 1].count;
    std::int32_t const stride = round_up(entries, key_block);
    score<H>(cache, queries, entries, scratch, stride);
    float totals[count_of(H)];
    for (std::int32_t h = 0; h < H; ++h) {
        float* const scores = scratch + h * stride;
        std::int32_t count = 0;
        for (std::size_t k = 0; k < runs; ++k) {
            if (attended[k].first != count)
                __builtin_memmove(scores + count, scores + attended[k].first,
                                  static_cast<std::size_t>(attended[k].count) * sizeof(float));
            count += attended[k].count;
        }
        totals[h] = exponentials(scores, count, cache.scale);
    }
    // The sums go to memory in whole vectors first: a store of part of one here would cost `gather` its registers.
    constexpr std::int32_t together = sums_of(H);
    std::int32_t const padded = round_up(cache.head_dim, lanes);
    float* const sums = scratch + H * stride;
    std::int32_t from = 0;
    for (; from + together * lanes <= padded; from += together * lanes)
        gather<H, together>(cache, attended, runs, scratch, stride, totals, from, sums);
    if constexpr (together > 1)
        for (; from < padded; from += lanes) gather<H, 1>(cache, attended, runs, scratch, stride, totals, from, sums);
    for (std::int32_t h = 0; h < H; ++h)
        for (std::int32_t d = 0; d < cache.head_dim; d += lanes)
            store(out + h * cache.head_dim + d, load(sums + h * padded + d), smaller(lanes, cache.head_dim - d));
}

// --- What kernels.hpp declares ---------------------------------------------------------------------------------------

void round_numbers(float const* from, std::size_t n, bfloat16* to) {
    std::size_t i = 0;
    for (; i + vector_lanes <= n; i += vector_lanes) {
        words bits;
        __builtin_memcpy(&bits, from + i, sizeof bits);
        halves const h = __builtin_convertvector((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16, halves);
        __builtin_memcpy(to + i, &h, sizeof h);
    }
    for (; i < n; ++i) {
        std::uint32_t bits;
        __builtin_memcpy(&bits, from + i, sizeof bits);
        to[i] = static_cast<bfloat16>((bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U);
    }
}

void norm_numbers(float* x, float const* add, float const* weight, std::int32_t n, float eps, float* out) {
    floats squares{};
    for (std::int32_t i = 0; i < n; i += lanes) {
        std::int32_t const count = smaller(lanes, n - i);
        floats v = load(x + i, count);
        if (add != nullptr) {
            v = for_parts([](vector a, vector b) { return a + b; }, v, load(add + i, count));
            store(x + i, v, count);
        }
        squares = for_parts([](vector a, vector b) { return a + b * b; }, squares, v);
    }
    float const inverse = 1.0F / __builtin_sqrtf(sum(squares) / static_cast<float>(n) + eps);
    for (std::int32_t i = 0; i < n; i += lanes) {
        std::int32_t const count = smaller(lanes, n - i);
        store(
            out + i,
            for_parts([&](vector a, vector w) { return a * inverse * w; }, load(x + i, count), load(weight + i, count)),
            count);
    }
}

void gate_numbers(float const* gate_up, std::int32_t n, float* out) {
    for (std::int32_t i = 0; i < n; i += lanes) {
        std::int32_t const count = smaller(lanes, n - i);
        store(out + i,
              for_parts([](vector gate, vector up) { return gate / (exponential(-gate) + 1.0F) * up; },
                        load(gate_up + i, count), load(gate_up + n + i, count)),
              count);
    }
}

void rotate_head(float* head, float const* cosines, float const* sines, std::int32_t half) {
    for (std::int32_t i = 0; i < half; i += lanes) {
        std::int32_t const count = smaller(lanes, half - i);
        floats const a = load(head + i, count);
        floats const b = load(head + half + i, count);
        floats const c = load(cosines + i, count);
        floats const s = load(sines + i, count);
        store(head + i, for_parts([](vector x, vector y, vector u, vector v) { return x * u - y * v; }, a, b, c, s),
              count);
        store(head + half + i,
              for_parts([](vector x, vector y, vector u, vector v) { return y * u + x * v; }, a, b, c, s), count);
    }
}

void attend_entries(attention_view const& cache, float const* queries, std::int32_t heads, run const* attended,
                    std::size_t runs, float* scratch, float* out) {
    for (; heads >= 4; heads -= 4, queries += 4 * cache.head_dim, out += 4 * cache.head_dim)
        attend_heads<4>(cache, queries, attended, runs, scratch, out);
    if (heads == 3) attend_heads<3>(cache, queries, attended, runs, scratch, out);
    if (heads == 2) attend_heads<2>(cache, queries, attended, runs, scratch, out);
    if (heads == 1) attend_heads<1>(cache, queries, attended, runs, scratch, out);
}

constexpr loops compiled_loops{round_numbers, norm_numbers, gate_numbers, rotate_head, attend_entries};

}  // namespace
}  // namespace multidraft::examples::kernels
