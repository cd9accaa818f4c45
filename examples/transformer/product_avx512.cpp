// Products by AVX-512 without dot products: multiply-adds of vectors of 16.
#include "transformer/product_kernel.hpp"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#include "transformer/product_avx512.hpp"

namespace multidraft::examples::product {
namespace {

struct multiply_add : vectors_of_16 {
    using operand = __m512;
    static constexpr std::size_t parts = 2;
    static constexpr std::ptrdiff_t group_input_bytes = 8;
    static MULTIDRAFT_EXAMPLE_INLINE sum add(sum s, operand w, __m512 x) { return _mm512_fmadd_ps(w, x, s); }
    /// The second of two inputs comes first, as in dot products of pairs.
    template <std::size_t part>
    static MULTIDRAFT_EXAMPLE_INLINE __m512 input_at(std::byte const* from) {
        return _mm512_set1_ps(*static_cast<float const*>(static_cast<void const*>(from + (part == 0 ? 4 : 0))));
    }
};

struct bf16_weights : multiply_add {
    static constexpr std::ptrdiff_t group_bytes = 64;
    template <std::size_t part>
    static MULTIDRAFT_EXAMPLE_INLINE operand operand_at(std::byte const* from) {
        __m512i const both = _mm512_loadu_si512(from);
        return _mm512_castsi512_ps(part == 0 ? _mm512_and_si512(both, _mm512_set1_epi32(static_cast<int>(0xffff0000U)))
                                             : _mm512_slli_epi32(both, 16));
    }
};

struct f32_weights : multiply_add {
    static constexpr std::ptrdiff_t group_bytes = 128;
    template <std::size_t part>
    static MULTIDRAFT_EXAMPLE_INLINE operand operand_at(std::byte const* from) {
        return _mm512_loadu_ps(from + 64 * part);
    }
};

struct int8_weights : multiply_add {
    static constexpr std::ptrdiff_t group_bytes = 32;
    template <std::size_t part>
    static MULTIDRAFT_EXAMPLE_INLINE operand operand_at(std::byte const* from) {
        auto const* const at = static_cast<__m128i const*>(static_cast<void const*>(from + 16 * part));
        return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(at)));
    }
};

constexpr kernel list[] = {
    {"avx512", weight_type::bf16, input_form::floats, multiply_add::together, multiply<bf16_weights>},
    {"avx512", weight_type::f32, input_form::floats, multiply_add::together, multiply<f32_weights>},
    {"avx512", weight_type::int8, input_form::floats, multiply_add::together, multiply<int8_weights>},
};

}  // namespace

kernel_list const avx512_kernels{list, sizeof list / sizeof *list};

}  // namespace multidraft::examples::product

#else
namespace multidraft::examples::product {
kernel_list const avx512_kernels{nullptr, 0};
}  // namespace multidraft::examples::product
#endif
