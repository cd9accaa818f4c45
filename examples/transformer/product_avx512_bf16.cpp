// Products by AVX512_BF16: dot products of pairs of bfloat16.
#include "transformer/product_kernel.hpp"

#if defined(__AVX512BF16__) && defined(__AVX512VBMI__) && defined(__AVX512BW__) && defined(__AVX512VL__)
#include "transformer/product_avx512.hpp"

namespace multidraft::examples::product {
namespace {

MULTIDRAFT_EXAMPLE_INLINE __m512bh as_pairs(__m512i bits) { return reinterpret_cast<__m512bh>(bits); }

struct bf16_weights : vectors_of_16 {
    using weights = __m512bh;
    using inputs = __m512bh;
    static constexpr std::int32_t weight_bytes = 64;
    static constexpr std::int32_t input_bytes = 64;
    static constexpr std::size_t outputs(std::size_t rows) {
        constexpr std::size_t of[] = {0, 12, 8, 8, 6, 4, 4, 3, 3};
        return of[rows];
    }
    static MULTIDRAFT_EXAMPLE_INLINE weights load(std::byte const* from) { return as_pairs(_mm512_loadu_si512(from)); }
    static MULTIDRAFT_EXAMPLE_INLINE inputs read(std::byte const* from) { return as_pairs(_mm512_loadu_si512(from)); }
    static MULTIDRAFT_EXAMPLE_INLINE sum add(sum s, weights w, inputs x) { return _mm512_dpbf16_ps(s, w, x); }
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

// For each byte as it is stored, which weight it is: of every 16, 8 of the first vector, then 8 of the second.
struct byte_order {
    alignas(64) unsigned char from[64];
};
constexpr byte_order make_order() {
    byte_order order{};
    for (std::int32_t i = 0; i < 64; ++i) {
        std::int32_t const in_vector = i % 32;
        order.from[in_vector / 8 * 16 + i / 32 * 8 + in_vector % 8] = static_cast<unsigned char>(i);
    }
    return order;
}
constexpr byte_order interleaved = make_order();

/// Weights of 8 bits are widened to bfloat16, exactly. They are stored as sign and magnitude, 64 in the order in which
/// the bytes of two vectors are interleaved.
struct int8_weights : vectors_of_16 {
    struct weights {
        __m512bh first, second;
    };
    using inputs = weights;
    static constexpr std::int32_t weight_bytes = 64;
    static constexpr std::int32_t input_bytes = 128;
    static constexpr std::size_t outputs(std::size_t rows) {
        constexpr std::size_t of[] = {0, 8, 6, 4, 4, 3, 2, 2, 2};
        return of[rows];
    }
    static MULTIDRAFT_EXAMPLE_INLINE weights load(std::byte const* from) {
        __m512i const stored = _mm512_loadu_si512(from);
        __m512i const low =
            _mm512_permutex2var_epi8(_mm512_load_si512(table.low), stored, _mm512_load_si512(table.low + 64));
        __m512i const magnitude =
            _mm512_permutex2var_epi8(_mm512_load_si512(table.high), stored, _mm512_load_si512(table.high + 64));
        // magnitude | (stored & 0x80)
        __m512i const high =
            _mm512_ternarylogic_epi32(magnitude, stored, _mm512_set1_epi8(static_cast<char>(0x80)), 0xf8);
        return {as_pairs(_mm512_unpacklo_epi8(low, high)), as_pairs(_mm512_unpackhi_epi8(low, high))};
    }
    static MULTIDRAFT_EXAMPLE_INLINE inputs read(std::byte const* from) {
        return {as_pairs(_mm512_loadu_si512(from)), as_pairs(_mm512_loadu_si512(from + 64))};
    }
    static MULTIDRAFT_EXAMPLE_INLINE sum add(sum s, weights w, inputs x) {
        return _mm512_dpbf16_ps(_mm512_dpbf16_ps(s, w.first, x.first), w.second, x.second);
    }
    static void store(std::int8_t const* weights, std::byte* to) {
        __m512i const integers = _mm512_loadu_si512(weights);
        __m512i const signs = _mm512_and_si512(integers, _mm512_set1_epi8(static_cast<char>(0x80)));
        __m512i const stored = _mm512_or_si512(_mm512_abs_epi8(integers), signs);
        _mm512_storeu_si512(to, _mm512_permutexvar_epi8(_mm512_load_si512(interleaved.from), stored));
    }
};

constexpr kernel list[] = {
    {"avx512_bf16", weight_type::bf16, input_form::pairs, 32, most_rows, multiply<bf16_weights>, nullptr},
    {"avx512_bf16", weight_type::int8, input_form::pairs, 64, most_rows, multiply<int8_weights>, int8_weights::store},
};

}  // namespace

kernel_list const avx512_bf16_kernels{list, sizeof list / sizeof *list};

}  // namespace multidraft::examples::product

#else
namespace multidraft::examples::product {
kernel_list const avx512_bf16_kernels{nullptr, 0};
}  // namespace multidraft::examples::product
#endif
