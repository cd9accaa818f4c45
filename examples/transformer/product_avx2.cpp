// Products by AVX2 and FMA: 16 partial sums in two vectors.
#include "transformer/product_kernel.hpp"

#if defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>

#include "transformer/product_tile.hpp"

namespace multidraft::examples::product {
namespace {

struct multiply_add {
    struct sum {
        __m256 a, b;
    };
    struct floats {
        sum odd, even;
    };
    using weights = floats;
    using inputs = floats;
    static constexpr std::int32_t input_bytes = 128;
    static constexpr std::int32_t together = 4;
    static constexpr std::size_t outputs(std::size_t rows) { return rows == 1 ? 4 : rows == 2 ? 2 : 1; }

    static MULTIDRAFT_EXAMPLE_INLINE sum zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
    static MULTIDRAFT_EXAMPLE_INLINE __m256 floats_at(std::byte const* from) {
        return _mm256_loadu_ps(static_cast<float const*>(static_cast<void const*>(from)));
    }
    static MULTIDRAFT_EXAMPLE_INLINE inputs read(std::byte const* from) {
        return {{floats_at(from), floats_at(from + 32)}, {floats_at(from + 64), floats_at(from + 96)}};
    }
    static MULTIDRAFT_EXAMPLE_INLINE sum add(sum s, weights const& w, inputs const& x) {
        return {_mm256_fmadd_ps(w.even.a, x.even.a, _mm256_fmadd_ps(w.odd.a, x.odd.a, s.a)),
                _mm256_fmadd_ps(w.even.b, x.even.b, _mm256_fmadd_ps(w.odd.b, x.odd.b, s.b))};
    }

    template <std::size_t n>
    static MULTIDRAFT_EXAMPLE_INLINE void totals(sum const (&sums)[n], float (&out)[n]) {
        MULTIDRAFT_EXAMPLE_UNROLL
        for (std::size_t i = 0; i < n; ++i) {
            __m256 const eight = _mm256_add_ps(sums[i].a, sums[i].b);
            __m128 const four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
            __m128 const two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            out[i] = _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
        }
    }
};

MULTIDRAFT_EXAMPLE_INLINE __m256i bytes_at(std::byte const* from) {
    return _mm256_loadu_si256(static_cast<__m256i const*>(static_cast<void const*>(from)));
}

struct bf16_weights : multiply_add {
    static constexpr std::int32_t weight_bytes = 64;
    static MULTIDRAFT_EXAMPLE_INLINE __m256 odd(__m256i both) {
        return _mm256_castsi256_ps(_mm256_and_si256(both, _mm256_set1_epi32(static_cast<int>(0xffff0000U))));
    }
    static MULTIDRAFT_EXAMPLE_INLINE __m256 even(__m256i both) {
        return _mm256_castsi256_ps(_mm256_slli_epi32(both, 16));
    }
    static MULTIDRAFT_EXAMPLE_INLINE weights load(std::byte const* from) {
        __m256i const a = bytes_at(from);
        __m256i const b = bytes_at(from + 32);
        return {{odd(a), odd(b)}, {even(a), even(b)}};
    }
};

struct f32_weights : multiply_add {
    static constexpr std::int32_t weight_bytes = 128;
    /// Lanes of two vectors that were taken half by half, in order.
    static MULTIDRAFT_EXAMPLE_INLINE __m256 in_order(__m256 v) {
        return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(v), _MM_SHUFFLE(3, 1, 2, 0)));
    }
    static MULTIDRAFT_EXAMPLE_INLINE weights load(std::byte const* from) {
        __m256 const a = floats_at(from);
        __m256 const b = floats_at(from + 32);
        __m256 const c = floats_at(from + 64);
        __m256 const d = floats_at(from + 96);
        constexpr int odd = _MM_SHUFFLE(3, 1, 3, 1);
        constexpr int even = _MM_SHUFFLE(2, 0, 2, 0);
        return {{in_order(_mm256_shuffle_ps(a, b, odd)), in_order(_mm256_shuffle_ps(c, d, odd))},
                {in_order(_mm256_shuffle_ps(a, b, even)), in_order(_mm256_shuffle_ps(c, d, even))}};
    }
};

struct int8_weights : multiply_add {
    static constexpr std::int32_t weight_bytes = 32;
    static MULTIDRAFT_EXAMPLE_INLINE __m256 widened(std::byte const* from) {
        return _mm256_cvtepi32_ps(
            _mm256_cvtepi8_epi32(_mm_loadl_epi64(static_cast<__m128i const*>(static_cast<void const*>(from)))));
    }
    static MULTIDRAFT_EXAMPLE_INLINE weights load(std::byte const* from) {
        return {{widened(from), widened(from + 8)}, {widened(from + 16), widened(from + 24)}};
    }
};

constexpr kernel list[] = {
    {"avx2", weight_type::bf16, input_form::split, 32, multiply_add::together, multiply<bf16_weights>, nullptr},
    {"avx2", weight_type::f32, input_form::split, 32, multiply_add::together, multiply<f32_weights>, nullptr},
    {"avx2", weight_type::int8, input_form::split, 32, multiply_add::together, multiply<int8_weights>, store_split},
};

}  // namespace

kernel_list const avx2_kernels{list, sizeof list / sizeof *list};

}  // namespace multidraft::examples::product

#else
namespace multidraft::examples::product {
kernel_list const avx2_kernels{nullptr, 0};
}  // namespace multidraft::examples::product
#endif
