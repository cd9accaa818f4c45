// The 16 sums of a panel in a vector of AVX-512.
#pragma once

#include <immintrin.h>

#include "transformer/product_bytes.hpp"

namespace multidraft::examples::product {
namespace {

/// Panels that memory is read fastest in, where weights need little work: more streams are slower.
constexpr std::size_t streams_from_memory = 2;

struct vectors_of_16 {
    using vector = __m512;
    static constexpr std::size_t vectors = 1;
    static constexpr bool keeps_inputs = true;
    static constexpr std::int32_t together = 12;
    static constexpr std::int32_t of_many = together;
    static constexpr std::size_t panels(std::size_t rows) {
        return rows == 1 ? 6 : rows == 2 ? 4 : rows == 3 ? 4 : rows == 4 ? 3 : 2;
    }

    static MULTIDRAFT_EXAMPLE_INLINE __m512 zero() { return _mm512_setzero_ps(); }
    static MULTIDRAFT_EXAMPLE_INLINE void write(__m512 s, float* to) { _mm512_storeu_ps(to, s); }
};

MULTIDRAFT_EXAMPLE_INLINE __m512 sixteen_halves_at(std::byte const* from) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(static_cast<__m256i const*>(static_cast<void const*>(from))));
}

/// What product_bytes.hpp needs, without dot products of bytes.
struct bytes_in_16_lanes {
    using integers = __m512i;
    using floats = __m512;
    static constexpr std::size_t lanes = 16;
    static constexpr bool has_dot = false;
    static constexpr std::int32_t together = 12;
    static constexpr std::int32_t of_many = together;
    static constexpr std::size_t panels(std::size_t /*rows*/) { return 1; }

    static MULTIDRAFT_EXAMPLE_INLINE __m512 zero() { return _mm512_setzero_ps(); }
    static MULTIDRAFT_EXAMPLE_INLINE __m512i no_integers() { return _mm512_setzero_si512(); }
    static MULTIDRAFT_EXAMPLE_INLINE void write(__m512 s, float* to) { _mm512_storeu_ps(to, s); }
    static MULTIDRAFT_EXAMPLE_INLINE __m512i load(std::byte const* from) { return _mm512_loadu_si512(from); }
    static MULTIDRAFT_EXAMPLE_INLINE __m512i broadcast(std::byte const* from) {
        return _mm512_set1_epi32(*static_cast<int const*>(static_cast<void const*>(from)));
    }
    static MULTIDRAFT_EXAMPLE_INLINE __m512 all(std::byte const* from) {
        return _mm512_set1_ps(*static_cast<float const*>(static_cast<void const*>(from)));
    }
    static MULTIDRAFT_EXAMPLE_INLINE __m512i low_nibbles(__m512i x) {
        return _mm512_and_si512(x, _mm512_set1_epi8(15));
    }
    static MULTIDRAFT_EXAMPLE_INLINE __m512i high_nibbles(__m512i x) { return low_nibbles(_mm512_srli_epi16(x, 4)); }
    static MULTIDRAFT_EXAMPLE_INLINE __m512i pairs(__m512i w, __m512i x) { return _mm512_maddubs_epi16(w, x); }
    static MULTIDRAFT_EXAMPLE_INLINE __m512i add16(__m512i a, __m512i b) { return _mm512_add_epi16(a, b); }
    static MULTIDRAFT_EXAMPLE_INLINE __m512i add32(__m512i a, __m512i b) { return _mm512_add_epi32(a, b); }
    static MULTIDRAFT_EXAMPLE_INLINE __m512i widened(__m512i pairs, short factor) {
        return _mm512_madd_epi16(pairs, _mm512_set1_epi16(factor));
    }
    static MULTIDRAFT_EXAMPLE_INLINE __m512 to_floats(__m512i x) { return _mm512_cvtepi32_ps(x); }
    static MULTIDRAFT_EXAMPLE_INLINE __m512 halves(std::byte const* from) { return sixteen_halves_at(from); }
    static MULTIDRAFT_EXAMPLE_INLINE __m512 multiplied(__m512 a, __m512 b) { return _mm512_mul_ps(a, b); }
    static MULTIDRAFT_EXAMPLE_INLINE __m512 add(__m512 sum, __m512 a, __m512 b) { return _mm512_fmadd_ps(a, b, sum); }
};

}  // namespace
}  // namespace multidraft::examples::product
