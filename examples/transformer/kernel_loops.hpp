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
#include "transformer/selection_loops.hpp"
#include "transformer/unroll.hpp"

#if defined(__F16C__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

// Vectors are passed between inlined functions only, never through an ABI.
#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

namespace multidraft::examples::kernels {
namespace {

#if defined(__AVX512F__)
constexpr std::int32_t vector_lanes = 16;
constexpr std::int32_t vectors_of_sums = 24;  ///< that the registers hold beside the operands
#elif defined(__AVX2__)
constexpr std::int32_t vector_lanes = 8;
constexpr std::int32_t vectors_of_sums = 12;
#elif defined(__aarch64__)
constexpr std::int32_t vector_lanes = 4;
constexpr std::int32_t vectors_of_sums = 24;
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
constexpr std::int32_t larger_of(std::int32_t a, std::int32_t b) { return a < b ? b : a; }

MULTIDRAFT_INLINE vector splat(float value) { return vector{} + value; }

MULTIDRAFT_INLINE vector load_vector(float const* from) {
    vector v;
    __builtin_memcpy(&v, from, sizeof v);
    return v;
}

// Halves as floats, exactly, and the nearest halves of numbers.
#if defined(__AVX512F__)
MULTIDRAFT_INLINE vector load_vector(half const* from) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(static_cast<__m256i const*>(static_cast<void const*>(from))));
}
MULTIDRAFT_INLINE halves nearest_halves(vector v) {
    return reinterpret_cast<halves>(_mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
#elif defined(__F16C__)
MULTIDRAFT_INLINE vector load_vector(half const* from) {
    return _mm256_cvtph_ps(_mm_loadu_si128(static_cast<__m128i const*>(static_cast<void const*>(from))));
}
MULTIDRAFT_INLINE halves nearest_halves(vector v) {
    return reinterpret_cast<halves>(_mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
#elif defined(__aarch64__)
MULTIDRAFT_INLINE vector load_vector(half const* from) {
    float16x4_t v;
    __builtin_memcpy(&v, from, sizeof v);
    return vcvt_f32_f16(v);
}
MULTIDRAFT_INLINE halves nearest_halves(vector v) { return reinterpret_cast<halves>(vcvt_f16_f32(v)); }
#else
MULTIDRAFT_INLINE vector as_floats(words bits) {
    vector v;
    __builtin_memcpy(&v, &bits, sizeof v);
    return v;
}
MULTIDRAFT_INLINE words as_words(vector v) {
    words bits;
    __builtin_memcpy(&bits, &v, sizeof bits);
    return bits;
}
MULTIDRAFT_INLINE vector load_vector(half const* from) {
    halves stored;
    __builtin_memcpy(&stored, from, sizeof stored);
    words const h = __builtin_convertvector(stored, words);
    words const size = (h & 0x7fffU) << 13;
    words const normal = size + (112U << 23);
    // Those below 2^-14: one is added to their exponent as if it were not 0, and taken from the number.
    words const small = as_words(as_floats(size + (113U << 23)) - as_floats(words{} + (113U << 23)));
    words const none = size + (224U << 23);  // infinite, or no number
    words const bits = size < (1U << 23) ? small : size >= (31U << 23) ? none : normal;
    return as_floats(bits | (h & 0x8000U) << 16);
}
MULTIDRAFT_INLINE halves nearest_halves(vector v) {
    words const bits = as_words(v);
    words const size = bits & 0x7fffffffU;
    words const normal = (size - (112U << 23) + 0xfffU + ((size >> 13) & 1U)) >> 13;
    // Those below 2^-14: 1/2 is a number whose lowest bit is that of such a half.
    words const small = as_words(as_floats(size) + 0.5F) - (126U << 23);
    words const half_size = size < (113U << 23) ? small : size > (255U << 23) ? words{} + 0x7e00U : normal;
    return __builtin_convertvector(half_size | (bits >> 16 & 0x8000U), halves);
}
#endif

MULTIDRAFT_INLINE void store_vector(float* to, vector v) { __builtin_memcpy(to, &v, sizeof v); }

/// `f` of each part of some numbers.
template <class F, class... Floats>
MULTIDRAFT_INLINE floats for_parts(F const& f, Floats const&... numbers) {
    floats out;
    MULTIDRAFT_EXAMPLE_UNROLL
    for (std::int32_t p = 0; p < parts; ++p) out.of[p] = f(numbers.of[p]...);
    return out;
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

/// Queries whose sums are computed together, at most: each number of a key or a value is read once for all of them.
constexpr std::int32_t most_queries = smaller(queries_together, vectors_of_sums / parts);

/// How many of 16 sums at a time `Q` queries have registers for: 1, 2 or 4.
constexpr std::int32_t sums_of(std::int32_t queries) {
    std::int32_t const most = vectors_of_sums / (queries * parts);
    return most >= 4 ? 4 : most >= 2 ? 2 : 1;
}

/// The cache of a key-value head, of floats or halves.
template <class Number>
struct cache_of {
    Number const* keys;
    Number const* values;
    std::int32_t head_dim;
    float scale;

    explicit cache_of(attention_view const& view)
        : keys(static_cast<Number const*>(view.keys)),
          values(static_cast<Number const*>(view.values)),
          head_dim(view.head_dim),
          scale(view.scale) {}
};

/// Fetches a cache line of the cache of keys and values: a long one is read from memory in every layer.
template <class Number>
MULTIDRAFT_INLINE void fetch_line(Number const* at) {
    __builtin_prefetch(at, 0, 2);
}

/// Adds `V` vectors of numbers, `at(v)` each, to the sums of `Q` queries, times `factor(q)`. What there is less of
/// stays in registers, numbers or factors.
template <std::int32_t Q, std::int32_t V, class At, class Factor>
MULTIDRAFT_INLINE void add_products(vector (&total)[count_of(Q)][count_of(V)], At const& at, Factor const& factor) {
    if constexpr (Q < V) {
        MULTIDRAFT_EXAMPLE_UNROLL
        for (std::int32_t v = 0; v < V; ++v) {
            vector const numbers = load_vector(at(v));
            MULTIDRAFT_EXAMPLE_UNROLL
            for (std::int32_t q = 0; q < Q; ++q) total[q][v] += numbers * factor(q);
        }
    } else {
        vector numbers[count_of(V)];
        MULTIDRAFT_EXAMPLE_UNROLL
        for (std::int32_t v = 0; v < V; ++v) numbers[v] = load_vector(at(v));
        MULTIDRAFT_EXAMPLE_UNROLL
        for (std::int32_t q = 0; q < Q; ++q) {
            MULTIDRAFT_EXAMPLE_UNROLL
            for (std::int32_t v = 0; v < V; ++v) total[q][v] += numbers[v] * factor(q);
        }
    }
}

/// The scores of `Q` queries for `G` groups of 16 entries. Each score is one sum over d in order. Number d of query q
/// is `queries[d * Q + q]`. The keys of the next groups are fetched meanwhile.
template <std::int32_t Q, std::int32_t G, class Number>
MULTIDRAFT_INLINE void score_groups(Number const* keys, std::int32_t dim, float const* queries, float* scores,
                                    std::int32_t stride) {
    vector total[count_of(Q)][count_of(G * parts)] = {};
    for (std::int32_t d = 0; d < dim; ++d) {
        auto const at = [&](std::int32_t v) { return keys + (v / parts * dim + d) * lanes + v % parts * vector_lanes; };
        MULTIDRAFT_EXAMPLE_UNROLL
        for (std::int32_t g = 0; g < G; ++g) fetch_line(at(g * parts) + G * dim * lanes);
        add_products<Q, G * parts>(total, at, [&](std::int32_t q) { return queries[d * Q + q]; });
    }
    MULTIDRAFT_EXAMPLE_UNROLL
    for (std::int32_t q = 0; q < Q; ++q) {
        MULTIDRAFT_EXAMPLE_UNROLL
        for (std::int32_t v = 0; v < G * parts; ++v) store_vector(scores + q * stride + v * vector_lanes, total[q][v]);
    }
}

/// The scores of `Q` queries for the entries 0 .. `entries`, rounded up to whole vectors.
template <std::int32_t Q, class Number>
MULTIDRAFT_INLINE void score(cache_of<Number> const& cache, float const* queries, std::int32_t entries, float* scores,
                             std::int32_t stride) {
    constexpr std::int32_t groups = sums_of(Q);
    Number const* keys = cache.keys;
    std::int32_t e = 0;
    for (; e + (groups - 1) * lanes < entries; e += groups * lanes, keys += groups * lanes * cache.head_dim)
        score_groups<Q, groups>(keys, cache.head_dim, queries, scores + e, stride);
    if constexpr (groups > 1)
        for (; e < entries; e += lanes, keys += lanes * cache.head_dim)
            score_groups<Q, 1>(keys, cache.head_dim, queries, scores + e, stride);
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

/// Adds, for `Q` queries, the weighted values of some entries, in their order, to 16 C numbers of their sums.
template <std::int32_t Q, std::int32_t C, class Number>
MULTIDRAFT_INLINE void gather_numbers(cache_of<Number> const& cache, run const* attended, std::size_t runs,
                                      float const* weights, std::int32_t stride, std::int32_t from, float* sums) {
    std::int32_t const padded = round_up(cache.head_dim, lanes);
    vector total[count_of(Q)][count_of(C * parts)];
    MULTIDRAFT_EXAMPLE_UNROLL
    for (std::int32_t q = 0; q < Q; ++q) {
        MULTIDRAFT_EXAMPLE_UNROLL
        for (std::int32_t v = 0; v < C * parts; ++v)
            total[q][v] = load_vector(sums + q * padded + from + v * vector_lanes);
    }
    for (std::size_t k = 0; k < runs; ++k) {
        Number const* value = cache.values + static_cast<std::ptrdiff_t>(attended[k].first) * padded + from;
        for (std::int32_t i = 0; i < attended[k].count; ++i, ++weights, value += padded) {
            MULTIDRAFT_EXAMPLE_UNROLL
            for (std::int32_t c = 0; c < C; ++c) fetch_line(value + entries_ahead * padded + c * lanes);
            add_products<Q, C * parts>(
                total, [&](std::int32_t v) { return value + v * vector_lanes; },
                [&](std::int32_t q) { return weights[q * stride]; });
        }
    }
    MULTIDRAFT_EXAMPLE_UNROLL
    for (std::int32_t q = 0; q < Q; ++q) {
        MULTIDRAFT_EXAMPLE_UNROLL
        for (std::int32_t v = 0; v < C * parts; ++v)
            store_vector(sums + q * padded + from + v * vector_lanes, total[q][v]);
    }
}

/// The same for all numbers.
template <std::int32_t Q, class Number>
MULTIDRAFT_INLINE void gather(cache_of<Number> const& cache, run const* attended, std::size_t runs,
                              float const* weights, std::int32_t stride, float* sums) {
    constexpr std::int32_t together = sums_of(Q);
    std::int32_t const padded = round_up(cache.head_dim, lanes);
    std::int32_t from = 0;
    for (; from + together * lanes <= padded; from += together * lanes)
        gather_numbers<Q, together>(cache, attended, runs, weights, stride, from, sums);
    if constexpr (together > 1)
        for (; from < padded; from += lanes) gather_numbers<Q, 1>(cache, attended, runs, weights, stride, from, sums);
}

/// Adds the weighted values of the entries of `attended` from the `done`th on to the sums of the `heads` queries of a
/// token.
template <std::int32_t H = 1, class Number>
void gather_rest(cache_of<Number> const& cache, token_attention const& of, std::int32_t heads, std::int32_t done,
                 float const* weights, std::int32_t stride, float* sums) {
    if constexpr (H < most_queries)
        if (heads != H) return gather_rest<H + 1>(cache, of, heads, done, weights, stride, sums);
    run const* rest = of.attended;
    std::size_t left = of.runs;
    if (done > 0) {
        // These are all in the first run.
        run const first{rest->first + done, rest->count - done};
        gather<H>(cache, &first, 1, weights + done, stride, sums);
        weights += rest->count;
        ++rest;
        --left;
    }
    gather<H>(cache, rest, left, weights, stride, sums);
}

/// Some heads of some tokens, `Q` queries.
template <std::int32_t Q, class Number>
void attend_queries(cache_of<Number> const& cache, token_attention const* tokens, std::int32_t count, std::int32_t head,
                    std::int32_t heads, float* scratch) {
    std::int32_t const dim = cache.head_dim;
    std::int32_t const padded = round_up(dim, lanes);
    // What is first in all of them is gathered for all at once.
    std::int32_t entries = 0;
    std::int32_t common = tokens[0].attended[0].count;
    for (std::int32_t t = 0; t < count; ++t) {
        run const* const attended = tokens[t].attended;
        run const& last = attended[tokens[t].runs - 1];
        entries = larger_of(entries, last.first + last.count);
        common = smaller(common, attended[0].first == 0 ? attended[0].count : 0);
    }
    std::int32_t const stride = round_up(entries, lanes);
    float* const scores = scratch;
    float* const sums = scores + Q * stride;
    float* const queries = sums + Q * padded;
    for (std::int32_t q = 0; q < Q; ++q) {
        float const* const from = tokens[q / heads].queries + (head + q % heads) * dim;
        for (std::int32_t d = 0; d < dim; ++d) queries[d * Q + q] = from[d];
    }
    score<Q>(cache, queries, entries, scores, stride);
    float totals[count_of(Q)];
    for (std::int32_t q = 0; q < Q; ++q) {
        token_attention const& of = tokens[q / heads];
        float* const own = scores + q * stride;
        std::int32_t attended = 0;
        for (std::size_t k = 0; k < of.runs; ++k) {
            if (of.attended[k].first != attended)
                __builtin_memmove(own + attended, own + of.attended[k].first,
                                  static_cast<std::size_t>(of.attended[k].count) * sizeof(float));
            attended += of.attended[k].count;
        }
        totals[q] = exponentials(own, attended, cache.scale);
    }
    for (std::int32_t i = 0; i < Q * padded; ++i) sums[i] = 0;
    if (count == 1) {
        gather<Q>(cache, tokens[0].attended, tokens[0].runs, scores, stride, sums);
    } else {
        run const first{0, common};
        gather<Q>(cache, &first, 1, scores, stride, sums);
        for (std::int32_t t = 0; t < count; ++t)
            gather_rest(cache, tokens[t], heads, common, scores + t * heads * stride, stride,
                        sums + t * heads * padded);
    }
    for (std::int32_t q = 0; q < Q; ++q) {
        vector const inverse = splat(1.0F / totals[q]);
        float* const out = tokens[q / heads].out + (head + q % heads) * dim;
        for (std::int32_t d = 0; d < dim; d += lanes)
            store(out + d, for_parts([&](vector v) { return v * inverse; }, load(sums + q * padded + d)),
                  smaller(lanes, dim - d));
    }
}

/// The same for a number of queries that is not known when this is compiled.
template <std::int32_t Q = most_queries, class Number>
void attend_some(cache_of<Number> const& cache, token_attention const* tokens, std::int32_t count, std::int32_t head,
                 std::int32_t heads, float* scratch) {
    if constexpr (Q > 1)
        if (count * heads != Q) return attend_some<Q - 1>(cache, tokens, count, head, heads, scratch);
    attend_queries<Q>(cache, tokens, count, head, heads, scratch);
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

void halve_numbers(float const* from, std::size_t n, half* to) {
    vector const most = splat(65504.0F);
    auto const nearest = [&](vector v) { return nearest_halves(v > most ? most : v < -most ? -most : v); };
    std::size_t i = 0;
    for (; i + vector_lanes <= n; i += vector_lanes) {
        halves const h = nearest(load_vector(from + i));
        __builtin_memcpy(to + i, &h, sizeof h);
    }
    if (i == n) return;
    float rest[vector_lanes] = {};
    for (std::size_t k = i; k < n; ++k) rest[k - i] = from[k];
    halves const h = nearest(load_vector(rest));
    __builtin_memcpy(to + i, &h, (n - i) * sizeof(half));
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

template <class Number>
void attend_groups(cache_of<Number> const& cache, token_attention const* tokens, std::int32_t count, std::int32_t heads,
                   float* scratch) {
    // Groups of heads, and of tokens where all heads of several are few; all as even as possible.
    std::int32_t const head_groups = (heads + most_queries - 1) / most_queries;
    std::int32_t const together = larger_of(1, most_queries / heads);
    for (std::int32_t groups = (count + together - 1) / together; groups > 0; --groups) {
        std::int32_t const of_group = (count + groups - 1) / groups;
        std::int32_t head = 0;
        for (std::int32_t left = head_groups; left > 0; --left) {
            std::int32_t const some = (heads - head + left - 1) / left;
            attend_some(cache, tokens, of_group, head, some, scratch);
            head += some;
        }
        tokens += of_group;
        count -= of_group;
    }
}

void attend_tokens(attention_view const& cache, token_attention const* tokens, std::int32_t count, std::int32_t heads,
                   float* scratch) {
    if (cache.numbers == cache_numbers::halves)
        attend_groups(cache_of<half>(cache), tokens, count, heads, scratch);
    else
        attend_groups(cache_of<float>(cache), tokens, count, heads, scratch);
}

constexpr loops compiled_loops{round_numbers, halve_numbers, norm_numbers,   gate_numbers,  rotate_head,
                               attend_tokens, add_numbers,   maxima_of_sets, count_numbers, collect_entries};

}  // namespace
}  // namespace multidraft::examples::kernels
