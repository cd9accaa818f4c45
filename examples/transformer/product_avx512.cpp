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
    static MULTIDRAFT_EXAMPLE_INLINE __m512 add(__m512 s, __m512 w, __m512 x) { return _mm512_fmadd_ps(w, x, s); }
    /// The second of each two inputs comes first, as in dot products of pairs.
    template <std::size_t part>
    static MULTIDRAFT_EXAMPLE_INLINE __m512 input_at(std::byte const* from) {
        return _mm512_set1_ps(*static_cast<float const*>(static_cast<void const*>(from + 4 * (part ^ 1U))));
    }
};

struct bf16_weights : multiply_add {
    static constexpr std::size_t panels(std::size_t) { return streams_from_memory; }
    static constexpr std::ptrdiff_t group_bytes = 64;
    template <std::size_t part>
    static MULTIDRAFT_EXAMPLE_INLINE void read_operands(std::byte const* from, operand (&w)[vectors]) {
        __m512i const both = _mm512_loadu_si512(from);
        w[0] = _mm512_castsi512_ps(part == 0 ? _mm512_and_si512(both, _mm512_set1_epi32(static_cast<int>(0xffff0000U)))
                                             : _mm512_slli_epi32(both, 16));
    }
};

struct f32_weights : multiply_add {
    static constexpr std::size_t panels(std::size_t) { return streams_from_memory; }
    static constexpr std::ptrdiff_t group_bytes = 128;
    template <std::size_t part>
    static MULTIDRAFT_EXAMPLE_INLINE void read_operands(std::byte const* from, operand (&w)[vectors]) {
        w[0] = _mm512_loadu_ps(from + 64 * part);
    }
};

struct int8_weights : multiply_add {
    static constexpr std::ptrdiff_t group_bytes = 32;
    template <std::size_t part>
    static MULTIDRAFT_EXAMPLE_INLINE void read_operands(std::byte const* from, operand (&w)[vectors]) {
        auto const* const at = static_cast<__m128i const*>(static_cast<void const*>(from + 16 * part));
        w[0] = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(at)));
    }
};

template <weight_type type>
struct block_weights : multiply_add {
    using layout = block_layout<type>;
    static constexpr std::size_t parts = layout::parts;
    static constexpr std::ptrdiff_t group_input_bytes = layout::group_input_bytes;
    static constexpr std::ptrdiff_t group_bytes = layout::group_bytes;
    static constexpr std::ptrdiff_t scale_bytes = layout::scale_bytes;

    struct scales {
        __m512 d, m;
    };
    static MULTIDRAFT_EXAMPLE_INLINE void read_scales(std::byte const* from, scales& to) {
        to.d = sixteen_halves_at(from);
        if constexpr (layout::has_least)
            to.m = sixteen_halves_at(from + 32);
        else
            to.m = _mm512_mul_ps(to.d, _mm512_set1_ps(layout::least));
    }
    /// The integers of a part, as floats.
    template <std::size_t part>
    static MULTIDRAFT_EXAMPLE_INLINE __m512 integers_at(std::byte const* from) {
        constexpr std::int32_t shift = layout::shift(part);
        __m512i q = _mm512_loadu_si512(from + layout::word(part));
        if constexpr (shift > 0) q = _mm512_srli_epi32(q, static_cast<unsigned>(shift));
        if constexpr (layout::bits == 4) {
            // Looked up by the lowest four bits of each lane.
            __m512 const table = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
            return _mm512_permutexvar_ps(q, table);
        } else {
            if constexpr (shift + layout::bits < 32) q = _mm512_and_si512(q, _mm512_set1_epi32(layout::largest));
            return _mm512_cvtepi32_ps(q);
        }
    }
    template <std::size_t part>
    static MULTIDRAFT_EXAMPLE_INLINE void read_operands(std::byte const* from, scales const& of,
                                                        operand (&w)[vectors]) {
        w[0] = _mm512_fmadd_ps(integers_at<part>(from), of.d, of.m);
    }
};

constexpr kernel list[] = {
    kernel_of<bf16_weights>("avx512", weight_type::bf16, input_form::floats),
    kernel_of<f32_weights>("avx512", weight_type::f32, input_form::floats),
    kernel_of<int8_weights>("avx512", weight_type::int8, input_form::floats),
    kernel_of<block_weights<weight_type::q8_0>>("avx512", weight_type::q8_0, input_form::floats),
    kernel_of<block_weights<weight_type::q4_0>>("avx512", weight_type::q4_0, input_form::floats),
    kernel_of<block_weights<weight_type::q4_1>>("avx512", weight_type::q4_1, input_form::floats),
    kernel_of<byte_inputs<bytes_in_16_lanes, weight_type::q8_0>>("avx512", weight_type::q8_0, input_form::bytes),
    kernel_of<byte_inputs<bytes_in_16_lanes, weight_type::q4_0>>("avx512", weight_type::q4_0, input_form::bytes),
    kernel_of<byte_inputs<bytes_in_16_lanes, weight_type::q4_1>>("avx512", weight_type::q4_1, input_form::bytes),
};

}  // namespace

kernel_list const avx512_kernels{list, sizeof list / sizeof *list};

}  // namespace multidraft::examples::product

#else
namespace multidraft::examples::product {
kernel_list const avx512_kernels{nullptr, 0};
}  // namespace multidraft::examples::product
#endif
