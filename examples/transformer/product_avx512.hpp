// The 16 sums of a panel in a vector of AVX-512.
#pragma once

#include <immintrin.h>

#include "transformer/product_tile.hpp"

namespace multidraft::examples::product {
namespace {

struct vectors_of_16 {
    using vector = __m512;
    static constexpr std::size_t vectors = 1;
    static constexpr std::int32_t together = 12;
    static constexpr std::int32_t of_many = together;
    static constexpr std::size_t panels(std::size_t rows) {
        return rows == 1 ? 6 : rows == 2 ? 4 : rows == 3 ? 4 : rows == 4 ? 3 : 2;
    }

    static MULTIDRAFT_EXAMPLE_INLINE __m512 zero() { return _mm512_setzero_ps(); }
    static MULTIDRAFT_EXAMPLE_INLINE void write(__m512 s, float* to) { _mm512_storeu_ps(to, s); }
};

}  // namespace
}  // namespace multidraft::examples::product
