// Products by AVX-512: fused multiply-adds of floats.
#include "transformer/product_kernel.hpp"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#include "transformer/product_avx512.hpp"

namespace multidraft::examples::product {
namespace {

struct floats {
    __m512 odd, even;
};

/// What all of them share: inputs in the form `split`.
struct multiply_add : vectors_of_16 {
    using weights = floats;
    using inputs = floats;
    static constexpr std::int32_t input_bytes = 128;
    static constexpr std::int32_t together = 4;
    static constexpr std::size_t outputs(std::size_t rows) {
        constexpr std::size_t of[] = {0, 8, 6, 4, 4};
        return of[rows];
    }
    static MULTIDRAFT_EXAMPLE_INLINE inputs read(std::byte const* from) {
        return {_mm512_loadu_ps(from), _mm512_loadu_ps(from + 64)};
    }
    static MULTIDRAFT_EXAMPLE_INLINE sum add(sum s, weights w, inputs x) {
        return _mm512_fmadd_ps(w.even, x.even, _mm512_fmadd_ps(w.odd, x.odd, s));
    }
};

struct bf16_weights : multiply_add {
    static constexpr std::int32_t weight_bytes = 64;
    static MULTIDRAFT_EXAMPLE_INLINE weights load(std::byte const* from) {
        __m512i const both = _mm512_loadu_si512(from);
        return {_mm512_castsi512_ps(_mm512_and_si512(both, _mm512_set1_epi32(static_cast<int>(0xffff0000U)))),
                _mm512_castsi512_ps(_mm512_slli_epi32(both, 16))};
    }
};

struct f32_weights : multiply_add {
    static constexpr std::int32_t weight_bytes = 128;
    static MULTIDRAFT_EXAMPLE_INLINE weights load(std::byte const* from) {
        __m512 const a = _mm512_loadu_ps(from);
        __m512 const b = _mm512_loadu_ps(from + 64);
        __m512i const even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
        return {_mm512_permutex2var_ps(a, _mm512_add_epi32(even, _mm512_set1_epi32(1)), b),
                _mm512_permutex2var_ps(a, even, b)};
    }
};

/// A step is stored as the 16 weights at odd places, then those at even ones.
struct int8_weights : multiply_add {
    static constexpr std::int32_t weight_bytes = 32;
    static MULTIDRAFT_EXAMPLE_INLINE __m512 widened(std::byte const* from) {
        return _mm512_cvtepi32_ps(
            _mm512_cvtepi8_epi32(_mm_loadu_si128(static_cast<__m128i const*>(static_cast<void const*>(from)))));
    }
    static MULTIDRAFT_EXAMPLE_INLINE weights load(std::byte const* from) { return {widened(from), widened(from + 16)}; }
};

constexpr kernel list[] = {
    {"avx512", weight_type::bf16, input_form::split, 32, multiply_add::together, multiply<bf16_weights>, nullptr},
    {"avx512", weight_type::f32, input_form::split, 32, multiply_add::together, multiply<f32_weights>, nullptr},
    {"avx512", weight_type::int8, input_form::split, 32, multiply_add::together, multiply<int8_weights>, store_split},
};

}  // namespace

kernel_list const avx512_kernels{list, sizeof list / sizeof *list};

}  // namespace multidraft::examples::product

#else
namespace multidraft::examples::product {
kernel_list const avx512_kernels{nullptr, 0};
}  // namespace multidraft::examples::product
#endif
