// Vectors of 16 partial sums in AVX-512, and their totals.
#pragma once

#include <immintrin.h>

#include "transformer/product_tile.hpp"

namespace multidraft::examples::product {
namespace {

struct vectors_of_16 {
    using sum = __m512;
    static constexpr std::int32_t together = most_rows;

    static MULTIDRAFT_EXAMPLE_INLINE sum zero() { return _mm512_setzero_ps(); }

    /// The total of each of `n` sums.
    template <std::size_t n>
    static MULTIDRAFT_EXAMPLE_INLINE void totals(sum const (&sums)[n], float (&out)[n]) {
        constexpr std::size_t rest = n % 16;
        constexpr std::size_t whole = n - (rest > 8 ? 0 : rest);  // these by 16, the rest by 8
        MULTIDRAFT_EXAMPLE_UNROLL
        for (std::size_t first = 0; first < whole; first += 16) {
            std::size_t const count = n - first < 16 ? n - first : 16;
            _mm512_mask_storeu_ps(out + first, static_cast<__mmask16>((1U << count) - 1U), of_16(sums + first, count));
        }
        if constexpr (whole < n)
            _mm256_mask_storeu_ps(out + whole, static_cast<__mmask8>((1U << rest) - 1U), of_8(sums + whole, rest));
    }

private:
    static MULTIDRAFT_EXAMPLE_INLINE sum at(sum const* sums, std::size_t i, std::size_t n) {
        return i < n ? sums[i] : zero();
    }
    // Two sums become one vector: lanes of a that are not added up yet, and such of b. One shuffle and one blend each,
    // where two shuffles would do the same.

    /// Lanes l + 8 are added to lanes l: of a in the first half, of b in the second.
    static MULTIDRAFT_EXAMPLE_INLINE sum halves(sum a, sum b) {
        return _mm512_add_ps(_mm512_mask_blend_ps(0xff00, a, b), _mm512_shuffle_f32x4(a, b, 0x4e));
    }
    /// In each half, lanes l + 4 to lanes l: of a in its first quarter, of b in its second.
    static MULTIDRAFT_EXAMPLE_INLINE sum quarters(sum a, sum b) {
        __m512i const from = _mm512_setr_epi64(2, 3, 8, 9, 6, 7, 12, 13);
        return _mm512_add_ps(_mm512_mask_blend_ps(0xf0f0, a, b),
                             _mm512_castpd_ps(_mm512_permutex2var_pd(_mm512_castps_pd(a), from, _mm512_castps_pd(b))));
    }
    /// In each quarter, lanes l + 2 to lanes l: of a in its first two, of b in the others.
    static MULTIDRAFT_EXAMPLE_INLINE sum eighths(sum a, sum b) {
        return _mm512_add_ps(_mm512_mask_blend_ps(0xcccc, a, b), _mm512_shuffle_ps(a, b, _MM_SHUFFLE(1, 0, 3, 2)));
    }
    /// Neighbours are added: of a in the even lanes, of b in the odd ones.
    static MULTIDRAFT_EXAMPLE_INLINE sum pairs(sum a, sum b) {
        __m512i const from = _mm512_setr_epi32(1, 16, 3, 18, 5, 20, 7, 22, 9, 24, 11, 26, 13, 28, 15, 30);
        return _mm512_add_ps(_mm512_mask_blend_ps(0xaaaa, a, b), _mm512_permutex2var_ps(a, from, b));
    }

    static MULTIDRAFT_EXAMPLE_INLINE sum of_16(sum const* s, std::size_t n) {
        sum half[8];
        MULTIDRAFT_EXAMPLE_UNROLL
        for (std::size_t i = 0; i < 8; ++i) half[i] = halves(at(s, i, n), at(s, i + 8, n));
        sum quarter[4];
        MULTIDRAFT_EXAMPLE_UNROLL
        for (std::size_t i = 0; i < 4; ++i) quarter[i] = quarters(half[i], half[i + 4]);
        return pairs(eighths(quarter[0], quarter[2]), eighths(quarter[1], quarter[3]));
    }
    static MULTIDRAFT_EXAMPLE_INLINE __m256 of_8(sum const* s, std::size_t n) {
        sum half[4];
        MULTIDRAFT_EXAMPLE_UNROLL
        for (std::size_t i = 0; i < 4; ++i) half[i] = halves(at(s, i, n), at(s, i + 4, n));
        sum const two = eighths(quarters(half[0], half[2]), quarters(half[1], half[3]));
        sum const all = _mm512_add_ps(two, _mm512_permute_ps(two, _MM_SHUFFLE(2, 3, 0, 1)));
        __m512i const even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 0, 0, 0, 0, 0, 0, 0, 0);
        return _mm512_castps512_ps256(_mm512_permutexvar_ps(even, all));
    }
};

}  // namespace
}  // namespace multidraft::examples::product
