// Products by AVX512_BF16: dot products of pairs of bfloat16.
#include "transformer/product_kernel.hpp"

#if defined(__AVX512BF16__) && defined(__AVX512VBMI__) && defined(__AVX512BW__) && defined(__AVX512VL__)
#include "transformer/product_avx512.hpp"

namespace multidraft::examples::product {
namespace {

MULTIDRAFT_EXAMPLE_INLINE __m512bh as_pairs(__m512i bits) { return reinterpret_cast<__m512bh>(bits); }

struct dot_products : vectors_of_16 {
    using operand = __m512bh;
    static MULTIDRAFT_EXAMPLE_INLINE __m512 add(__m512 s, __m512bh w, __m512bh x) { return _mm512_dpbf16_ps(s, w, x); }
    template <std::size_t part>
    static MULTIDRAFT_EXAMPLE_INLINE __m512bh input_at(std::byte const* from) {
        return as_pairs(_mm512_set1_epi32(*static_cast<int const*>(static_cast<void const*>(from + 4 * part))));
    }
};

struct bf16_weights : dot_products {
    static constexpr std::size_t panels(std::size_t) { return streams_from_memory; }
    static constexpr std::size_t parts = 1;
    static constexpr std::ptrdiff_t group_input_bytes = 4;
    static constexpr std::ptrdiff_t group_bytes = 64;
    template <std::size_t part>
    static MULTIDRAFT_EXAMPLE_INLINE void read_operands(std::byte const* from, operand (&w)[vectors]) {
        w[0] = as_pairs(_mm512_loadu_si512(from));
    }
};

// The bfloat16 of an integer in [0, 128), by bytes: looked up, 128 bytes at a time.
struct bytes_of_integers {
    alignas(64) unsigned char low[128];
    alignas(64) unsigned char high[128];
};
constexpr bytes_of_integers make_bytes() {
    bytes_of_integers table{};
    for (std::int32_t i = 1; i < 128; ++i) {
        std::int32_t exponent = 0;
        while (i >> (exponent + 1) != 0) ++exponent;
        std::int32_t const bits = ((127 + exponent) << 7) | ((i << (7 - exponent)) & 0x7f);
        table.low[i] = static_cast<unsigned char>(bits & 0xff);
        table.high[i] = static_cast<unsigned char>(bits >> 8);
    }
    return table;
}
constexpr bytes_of_integers table = make_bytes();

/// Weights of 8 bits are widened to bfloat16, exactly. They are stored as sign and magnitude, those of two pairs of
/// inputs in the order in which the bytes of two vectors are interleaved: see `store_panel`.
struct int8_weights : dot_products {
    static constexpr std::size_t parts = 2;
    static constexpr std::ptrdiff_t group_input_bytes = 8;
    static constexpr std::ptrdiff_t group_bytes = 64;
    template <std::size_t part>
    static MULTIDRAFT_EXAMPLE_INLINE void read_operands(std::byte const* from, operand (&w)[vectors]) {
        __m512i const stored = _mm512_loadu_si512(from);
        __m512i const low =
            _mm512_permutex2var_epi8(_mm512_load_si512(table.low), stored, _mm512_load_si512(table.low + 64));
        __m512i const magnitude =
            _mm512_permutex2var_epi8(_mm512_load_si512(table.high), stored, _mm512_load_si512(table.high + 64));
        // magnitude | (stored & 0x80)
        __m512i const high =
            _mm512_ternarylogic_epi32(magnitude, stored, _mm512_set1_epi8(static_cast<char>(0x80)), 0xf8);
        w[0] = as_pairs(part == 0 ? _mm512_unpacklo_epi8(low, high) : _mm512_unpackhi_epi8(low, high));
    }
};

constexpr kernel list[] = {
    kernel_of<bf16_weights>("avx512_bf16", weight_type::bf16, input_form::pairs),
    kernel_of<int8_weights>("avx512_bf16", weight_type::int8, input_form::pairs),
};

}  // namespace

kernel_list const avx512_bf16_kernels{list, sizeof list / sizeof *list};

}  // namespace multidraft::examples::product

#else
namespace multidraft::examples::product {
kernel_list const avx512_bf16_kernels{nullptr, 0};
}  // namespace multidraft::examples::product
#endif
