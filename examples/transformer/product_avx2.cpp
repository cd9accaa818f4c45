// Products by AVX2 and FMA, and conversions of halves by F16C: the 16 sums of a panel in two vectors.
#include "transformer/product_kernel.hpp"

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#include <immintrin.h>

#include "transformer/product_bytes.hpp"

namespace multidraft::examples::product {
namespace {

struct multiply_add {
    using vector = __m256;
    using operand = __m256;
    static constexpr std::size_t vectors = 2;
    static constexpr bool keeps_inputs = false;
    static constexpr std::size_t parts = 2;
    static constexpr std::ptrdiff_t group_input_bytes = 8;
    static constexpr std::int32_t together = 6;
    static constexpr std::int32_t of_many = 6;
    static constexpr std::size_t panels(std::size_t rows) { return rows == 1 ? 4 : rows == 2 ? 3 : rows == 3 ? 2 : 1; }

    static MULTIDRAFT_EXAMPLE_INLINE __m256 zero() { return _mm256_setzero_ps(); }
    /// In the form that overwrites the sum: g++ also takes others, and then stores sums of six rows in every round.
    static MULTIDRAFT_EXAMPLE_INLINE __m256 add(__m256 s, __m256 w, __m256 x) {
        asm("vfmadd231ps %2, %1, %0" : "+x"(s) : "x"(w), "x"(x));
        return s;
    }
    static MULTIDRAFT_EXAMPLE_INLINE void write(__m256 s, float* to) { _mm256_storeu_ps(to, s); }
    /// The second of each two inputs comes first, as in dot products of pairs.
    template <std::size_t part>
    static MULTIDRAFT_EXAMPLE_INLINE __m256 input_at(std::byte const* from) {
        asm volatile("" ::: "memory");  // not earlier: it would take a register from the sums
        return _mm256_broadcast_ss(static_cast<float const*>(static_cast<void const*>(from + 4 * (part ^ 1U))));
    }
};

MULTIDRAFT_EXAMPLE_INLINE __m256i bytes_at(std::byte const* from) {
    return _mm256_loadu_si256(static_cast<__m256i const*>(static_cast<void const*>(from)));
}

MULTIDRAFT_EXAMPLE_INLINE __m256 eight_halves_at(std::byte const* from) {
    return _mm256_cvtph_ps(_mm_loadu_si128(static_cast<__m128i const*>(static_cast<void const*>(from))));
}

constexpr long long two_seconds = static_cast<long long>(0xffff0000ffff0000ULL);
constexpr __m256i mask_of_seconds = {two_seconds, two_seconds, two_seconds, two_seconds};

/// Of each pair of bfloat16 the second, as floats. The mask stays in memory, and the pairs are not kept for the first:
/// the sums of six rows leave no registers for them.
MULTIDRAFT_EXAMPLE_INLINE __m256 second_of_pairs(std::byte const* from) {
    __m256i both = bytes_at(from);
    asm("vpand %1, %0, %0" : "+x"(both) : "m"(mask_of_seconds));
    return _mm256_castsi256_ps(both);
}
MULTIDRAFT_EXAMPLE_INLINE __m256 first_of_pairs(std::byte const* from) {
    asm("" : "+r"(from));
    return _mm256_castsi256_ps(_mm256_slli_epi32(bytes_at(from), 16));
}

// Nine or twelve sums and three vectors of weights in one statement: of single ones g++ keeps some sums in memory.
#define MULTIDRAFT_EXAMPLE_SUM3(x, a, b, c) \
    "vbroadcastss " x                       \
    "+%c[at](%[inputs]), %%ymm15\n\t"       \
    "vfmadd231ps %%ymm12, %%ymm15, %" a     \
    "\n\t"                                  \
    "vfmadd231ps %%ymm13, %%ymm15, %" b     \
    "\n\t"                                  \
    "vfmadd231ps %%ymm14, %%ymm15, %" c "\n\t"
#define MULTIDRAFT_EXAMPLE_SUM3_OF_3_ROWS       \
    MULTIDRAFT_EXAMPLE_SUM3("0", "0", "1", "2") \
    MULTIDRAFT_EXAMPLE_SUM3("64", "3", "4", "5") MULTIDRAFT_EXAMPLE_SUM3("128", "6", "7", "8")
#define MULTIDRAFT_EXAMPLE_9_SUMS \
    "+x"(s[0]), "+x"(s[1]), "+x"(s[2]), "+x"(s[3]), "+x"(s[4]), "+x"(s[5]), "+x"(s[6]), "+x"(s[7]), "+x"(s[8])
/// `read` brings the weights into registers 12 to 14; 15 is for an input.
#define MULTIDRAFT_EXAMPLE_ADD_WIDE(read, ...)                                                                       \
    do {                                                                                                             \
        if constexpr (R == 3)                                                                                        \
            asm volatile(read MULTIDRAFT_EXAMPLE_SUM3_OF_3_ROWS:MULTIDRAFT_EXAMPLE_9_SUMS                            \
                         : [weights] "r"(weights), [half] "r"(half), [inputs] "r"(inputs), [at] "i"(4 * (1 - part)), \
                           __VA_ARGS__                                                                               \
                         : "xmm12", "xmm13", "xmm14", "xmm15", "memory");                                            \
        else                                                                                                         \
            asm volatile(read MULTIDRAFT_EXAMPLE_SUM3_OF_3_ROWS MULTIDRAFT_EXAMPLE_SUM3("192", "9", "10", "11")      \
                         : MULTIDRAFT_EXAMPLE_9_SUMS, "+x"(s[9]), "+x"(s[10]), "+x"(s[11])                           \
                         : [weights] "r"(weights), [half] "r"(half), [inputs] "r"(inputs), [at] "i"(4 * (1 - part)), \
                           __VA_ARGS__                                                                               \
                         : "xmm12", "xmm13", "xmm14", "xmm15", "memory");                                            \
    } while (false)

struct bf16_weights : multiply_add {
    static constexpr std::int32_t of_many = 4;
    static constexpr std::ptrdiff_t half_bytes = 32;
    template <std::size_t R, int part>
    static MULTIDRAFT_EXAMPLE_INLINE void add_wide(std::byte const* weights, std::ptrdiff_t half,
                                                   std::byte const* inputs, __m256 (&s)[3 * R]) {
        if constexpr (part == 0)
            MULTIDRAFT_EXAMPLE_ADD_WIDE(
                "vmovups (%[weights]), %%ymm12\n\t"
                "vmovups 32(%[weights]), %%ymm13\n\t"
                "vmovups (%[weights],%[half]), %%ymm14\n\t"
                "vandps %[mask], %%ymm12, %%ymm12\n\t"
                "vandps %[mask], %%ymm13, %%ymm13\n\t"
                "vandps %[mask], %%ymm14, %%ymm14\n\t",
                [mask] "m"(mask_of_seconds));
        else
            MULTIDRAFT_EXAMPLE_ADD_WIDE(
                "vmovdqu (%[weights]), %%ymm12\n\t"
                "vmovdqu 32(%[weights]), %%ymm13\n\t"
                "vmovdqu (%[weights],%[half]), %%ymm14\n\t"
                "vpslld %[bits], %%ymm12, %%ymm12\n\t"
                "vpslld %[bits], %%ymm13, %%ymm13\n\t"
                "vpslld %[bits], %%ymm14, %%ymm14\n\t",
                [bits] "i"(16));
    }

    static constexpr std::ptrdiff_t group_bytes = 64;
    template <std::size_t part>
    static MULTIDRAFT_EXAMPLE_INLINE void read_operands(std::byte const* from, __m256 (&w)[vectors]) {
        w[0] = part == 0 ? second_of_pairs(from) : first_of_pairs(from);
        w[1] = part == 0 ? second_of_pairs(from + 32) : first_of_pairs(from + 32);
    }
};

struct f32_weights : multiply_add {
    static constexpr std::int32_t of_many = 4;
    static constexpr std::ptrdiff_t half_bytes = 32;
    static constexpr std::ptrdiff_t group_bytes = 128;
    template <std::size_t R, int part>
    static MULTIDRAFT_EXAMPLE_INLINE void add_wide(std::byte const* weights, std::ptrdiff_t half,
                                                   std::byte const* inputs, __m256 (&s)[3 * R]) {
        MULTIDRAFT_EXAMPLE_ADD_WIDE(
            "vmovups %c[first](%[weights]), %%ymm12\n\t"
            "vmovups %c[first]+32(%[weights]), %%ymm13\n\t"
            "vmovups %c[first](%[weights],%[half]), %%ymm14\n\t",
            [first] "i"(64 * part));
    }
    template <std::size_t part>
    static MULTIDRAFT_EXAMPLE_INLINE void read_operands(std::byte const* from, __m256 (&w)[vectors]) {
        auto const* const at = static_cast<float const*>(static_cast<void const*>(from + 64 * part));
        w[0] = _mm256_loadu_ps(at);
        w[1] = _mm256_loadu_ps(at + 8);
    }
};

struct int8_weights : multiply_add {
    static constexpr std::ptrdiff_t group_bytes = 32;
    static MULTIDRAFT_EXAMPLE_INLINE __m256 widened(std::byte const* from) {
        return _mm256_cvtepi32_ps(
            _mm256_cvtepi8_epi32(_mm_loadl_epi64(static_cast<__m128i const*>(static_cast<void const*>(from)))));
    }
    template <std::size_t part>
    static MULTIDRAFT_EXAMPLE_INLINE void read_operands(std::byte const* from, __m256 (&w)[vectors]) {
        w[0] = widened(from + 16 * part);
        w[1] = widened(from + 16 * part + 8);
    }
};

template <weight_type type>
struct block_weights : multiply_add {
    using layout = block_layout<type>;
    static constexpr std::size_t parts = layout::parts;
    static constexpr std::ptrdiff_t group_input_bytes = layout::group_input_bytes;
    static constexpr std::ptrdiff_t group_bytes = layout::group_bytes;
    static constexpr std::ptrdiff_t scale_bytes = layout::scale_bytes;
    static constexpr std::int32_t together = 5;  // a sixth row has no registers
    static constexpr std::int32_t of_many = 5;
    static constexpr std::size_t panels(std::size_t rows) { return rows == 1 ? 2 : 1; }

    /// Of the outputs 0 to 7 and 8 to 15, without structures in it, which g++ would copy through other registers.
    struct scales {
        __m256 d_a, d_b, m_a, m_b;
        __m256 shifted_a, shifted_b;  ///< d for an integer that is left where the second one of a word lies
    };
    static MULTIDRAFT_EXAMPLE_INLINE __m256 times(__m256 d, float x) { return _mm256_mul_ps(d, _mm256_set1_ps(x)); }
    static MULTIDRAFT_EXAMPLE_INLINE void read_scales(std::byte const* from, scales& to) {
        to.d_a = eight_halves_at(from);
        to.d_b = eight_halves_at(from + 16);
        to.shifted_a = times(to.d_a, 1.0F / (layout::largest + 1));
        to.shifted_b = times(to.d_b, 1.0F / (layout::largest + 1));
        if constexpr (layout::has_least) {
            to.m_a = eight_halves_at(from + 32);
            to.m_b = eight_halves_at(from + 48);
        } else {
            to.m_a = times(to.d_a, layout::least);
            to.m_b = times(to.d_b, layout::least);
        }
    }
    template <std::size_t part>
    static MULTIDRAFT_EXAMPLE_INLINE __m256 half(std::byte const* from, __m256 d, __m256 m) {
        // The second integer of each two stays where it is.
        constexpr std::int32_t shift = layout::shift(part / 2 * 2);
        constexpr std::int32_t mask = part % 2 == 0 ? layout::largest : layout::largest << layout::bits;
        __m256i q = bytes_at(from + layout::word(part));
        if constexpr (shift > 0) q = _mm256_srli_epi32(q, shift);
        return _mm256_fmadd_ps(_mm256_cvtepi32_ps(_mm256_and_si256(q, _mm256_set1_epi32(mask))), d, m);
    }
    template <std::size_t part>
    static MULTIDRAFT_EXAMPLE_INLINE void read_operands(std::byte const* from, scales const& of, __m256 (&w)[vectors]) {
        w[0] = half<part>(from, part % 2 == 0 ? of.d_a : of.shifted_a, of.m_a);
        w[1] = half<part>(from + 32, part % 2 == 0 ? of.d_b : of.shifted_b, of.m_b);
    }
};

/// What product_bytes.hpp needs.
struct bytes_in_8_lanes {
    using integers = __m256i;
    using floats = __m256;
    static constexpr std::size_t lanes = 8;
    static constexpr bool has_dot = false;
    static constexpr std::int32_t together = 6;
    static constexpr std::int32_t of_many = together;
    static constexpr std::size_t panels(std::size_t rows) { return rows <= 2 ? 2 : 1; }

    static MULTIDRAFT_EXAMPLE_INLINE __m256 zero() { return _mm256_setzero_ps(); }
    static MULTIDRAFT_EXAMPLE_INLINE void write(__m256 s, float* to) { _mm256_storeu_ps(to, s); }
    static MULTIDRAFT_EXAMPLE_INLINE __m256i load(std::byte const* from) { return bytes_at(from); }
    static MULTIDRAFT_EXAMPLE_INLINE __m256i broadcast(std::byte const* from) {
        return _mm256_set1_epi32(*static_cast<int const*>(static_cast<void const*>(from)));
    }
    static MULTIDRAFT_EXAMPLE_INLINE __m256 all(std::byte const* from) {
        return _mm256_broadcast_ss(static_cast<float const*>(static_cast<void const*>(from)));
    }
    static MULTIDRAFT_EXAMPLE_INLINE __m256i low_nibbles(__m256i x) {
        return _mm256_and_si256(x, _mm256_set1_epi8(15));
    }
    static MULTIDRAFT_EXAMPLE_INLINE __m256i high_nibbles(__m256i x) { return low_nibbles(_mm256_srli_epi16(x, 4)); }
    static MULTIDRAFT_EXAMPLE_INLINE __m256i pairs(__m256i w, __m256i x) { return _mm256_maddubs_epi16(w, x); }
    static MULTIDRAFT_EXAMPLE_INLINE __m256i add16(__m256i a, __m256i b) { return _mm256_add_epi16(a, b); }
    static MULTIDRAFT_EXAMPLE_INLINE __m256i add32(__m256i a, __m256i b) { return _mm256_add_epi32(a, b); }
    static MULTIDRAFT_EXAMPLE_INLINE __m256i widened(__m256i pairs, short factor) {
        return _mm256_madd_epi16(pairs, _mm256_set1_epi16(factor));
    }
    static MULTIDRAFT_EXAMPLE_INLINE __m256 to_floats(__m256i x) { return _mm256_cvtepi32_ps(x); }
    static MULTIDRAFT_EXAMPLE_INLINE __m256 halves(std::byte const* from) { return eight_halves_at(from); }
    static MULTIDRAFT_EXAMPLE_INLINE __m256 multiplied(__m256 a, __m256 b) { return _mm256_mul_ps(a, b); }
    static MULTIDRAFT_EXAMPLE_INLINE __m256 add(__m256 sum, __m256 a, __m256 b) { return _mm256_fmadd_ps(a, b, sum); }
};

constexpr kernel list[] = {
    kernel_of<bf16_weights>("avx2", weight_type::bf16, input_form::floats),
    kernel_of<f32_weights>("avx2", weight_type::f32, input_form::floats),
    kernel_of<int8_weights>("avx2", weight_type::int8, input_form::floats),
    kernel_of<block_weights<weight_type::q8_0>>("avx2", weight_type::q8_0, input_form::floats),
    kernel_of<block_weights<weight_type::q4_0>>("avx2", weight_type::q4_0, input_form::floats),
    kernel_of<block_weights<weight_type::q4_1>>("avx2", weight_type::q4_1, input_form::floats),
    kernel_of<byte_inputs<bytes_in_8_lanes, weight_type::q8_0>>("avx2", weight_type::q8_0, input_form::bytes),
    kernel_of<byte_inputs<bytes_in_8_lanes, weight_type::q4_0>>("avx2", weight_type::q4_0, input_form::bytes),
    kernel_of<byte_inputs<bytes_in_8_lanes, weight_type::q4_1>>("avx2", weight_type::q4_1, input_form::bytes),
};

}  // namespace

kernel_list const avx2_kernels{list, sizeof list / sizeof *list};

}  // namespace multidraft::examples::product

#else
namespace multidraft::examples::product {
kernel_list const avx2_kernels{nullptr, 0};
}  // namespace multidraft::examples::product
#endif
