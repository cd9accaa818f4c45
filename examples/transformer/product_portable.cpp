// Products in plain C++, for CPUs without the instructions of the other files. With vectors of four numbers and fused
// multiply-adds, as in NEON, the compiler keeps the sums of a tile in registers.

#include "transformer/product_kernel.hpp"
#include "transformer/product_tile.hpp"

namespace multidraft::examples::product {
namespace {

/// Four numbers, in a vector where the CPU has one of that size.
using four __attribute__((vector_size(16))) = float;
using four_bits __attribute__((vector_size(16))) = std::uint32_t;
using four_integers __attribute__((vector_size(16))) = std::int32_t;

/// Fused where the CPU has it, otherwise two roundings: the library function would be many times slower.
MULTIDRAFT_EXAMPLE_INLINE four multiplied(four a, float x, four c) {
#if defined(__FP_FAST_FMAF) || defined(__FMA__)
    MULTIDRAFT_EXAMPLE_UNROLL
    for (std::int32_t l = 0; l < 4; ++l) c[l] = __builtin_fmaf(a[l], x, c[l]);
    return c;
#else
    return a * x + c;
#endif
}

struct multiply_add {
    struct sum {
        four of[4];
    };
    using operand = sum;
    static constexpr std::size_t parts = 2;
    static constexpr std::ptrdiff_t group_input_bytes = 8;
#if defined(__aarch64__)
    static constexpr std::int32_t together = 6;
    static constexpr std::size_t panels(std::size_t rows) { return rows <= 2 ? 2 : 1; }
#else
    static constexpr std::int32_t together = 2;
    static constexpr std::size_t panels(std::size_t rows) { return rows == 1 ? 2 : 1; }
#endif

    static MULTIDRAFT_EXAMPLE_INLINE sum zero() { return {}; }
    static MULTIDRAFT_EXAMPLE_INLINE sum add(sum s, operand const& w, float x) {
        MULTIDRAFT_EXAMPLE_UNROLL
        for (std::int32_t i = 0; i < 4; ++i) s.of[i] = multiplied(w.of[i], x, s.of[i]);
        return s;
    }
    static MULTIDRAFT_EXAMPLE_INLINE void write(sum const& s, float* to) { __builtin_memcpy(to, &s, sizeof s); }
    /// The second of each two inputs comes first, as in dot products of pairs.
    template <std::size_t part>
    static MULTIDRAFT_EXAMPLE_INLINE float input_at(std::byte const* from) {
        float x;
        __builtin_memcpy(&x, from + 4 * (part ^ 1U), sizeof x);
        return x;
    }
};

struct bf16_weights : multiply_add {
    static constexpr std::ptrdiff_t group_bytes = 64;
    template <std::size_t part>
    static MULTIDRAFT_EXAMPLE_INLINE operand operand_at(std::byte const* from) {
        four_bits both[4];
        __builtin_memcpy(both, from, sizeof both);
        MULTIDRAFT_EXAMPLE_UNROLL
        for (four_bits& bits : both) {
            if constexpr (part == 0)
                bits &= 0xffff0000U;
            else
                bits <<= 16U;
        }
        operand w;
        __builtin_memcpy(&w, both, sizeof w);
        return w;
    }
};

struct f32_weights : multiply_add {
    static constexpr std::ptrdiff_t group_bytes = 128;
    template <std::size_t part>
    static MULTIDRAFT_EXAMPLE_INLINE operand operand_at(std::byte const* from) {
        operand w;
        __builtin_memcpy(&w, from + 64 * part, sizeof w);
        return w;
    }
};

struct int8_weights : multiply_add {
    static constexpr std::ptrdiff_t group_bytes = 32;
    template <std::size_t part>
    static MULTIDRAFT_EXAMPLE_INLINE operand operand_at(std::byte const* from) {
        operand w;
        MULTIDRAFT_EXAMPLE_UNROLL
        for (std::int32_t i = 0; i < panel; ++i)
            w.of[i / 4][i % 4] =
                static_cast<float>(static_cast<std::int8_t>(from[16 * part + static_cast<std::size_t>(i)]));
        return w;
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
        four d[4];
        four m[4];
    };
    static MULTIDRAFT_EXAMPLE_INLINE float half_at(std::byte const* from) {
        std::uint16_t bits;
        __builtin_memcpy(&bits, from, sizeof bits);
        std::uint32_t const magnitude = bits & 0x7fffU;
        std::uint32_t const exponent = magnitude >= 0x7c00U ? 0x7f800000U : 112U << 23U;
        std::uint32_t const as_float = (magnitude << 13U) + exponent;
        float value;
        __builtin_memcpy(&value, &as_float, sizeof value);
        // A denormal one is a multiple of 2^-24.
        if (magnitude < 0x400U) value = static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24F;
        return (bits & 0x8000U) != 0 ? -value : value;
    }
    static MULTIDRAFT_EXAMPLE_INLINE void read_halves(std::byte const* from, four (&to)[4]) {
        MULTIDRAFT_EXAMPLE_UNROLL
        for (std::int32_t i = 0; i < panel; ++i) to[i / 4][i % 4] = half_at(from + 2 * i);
    }
    static MULTIDRAFT_EXAMPLE_INLINE void read_scales(std::byte const* from, scales& to) {
        read_halves(from, to.d);
        if constexpr (layout::has_least) {
            read_halves(from + 32, to.m);
        } else {
            MULTIDRAFT_EXAMPLE_UNROLL
            for (std::int32_t i = 0; i < 4; ++i) to.m[i] = to.d[i] * layout::least;
        }
    }
    template <std::size_t part>
    static MULTIDRAFT_EXAMPLE_INLINE operand operand_at(std::byte const* from, scales const& of) {
        four_bits q[4];
        constexpr std::int32_t shift = layout::shift(part);
        __builtin_memcpy(q, from + layout::word(part), sizeof q);
        operand w;
        MULTIDRAFT_EXAMPLE_UNROLL
        for (std::int32_t i = 0; i < 4; ++i) {
            if constexpr (shift > 0) q[i] >>= static_cast<std::uint32_t>(shift);
            if constexpr (shift + layout::bits < 32) q[i] &= static_cast<std::uint32_t>(layout::largest);
            // Fused or not: the product is exact.
            w.of[i] = __builtin_convertvector(reinterpret_cast<four_integers>(q[i]), four) * of.d[i] + of.m[i];
        }
        return w;
    }
};

constexpr kernel list[] = {
    {"portable", weight_type::bf16, input_form::floats, multiply_add::together, multiply<bf16_weights>},
    {"portable", weight_type::f32, input_form::floats, multiply_add::together, multiply<f32_weights>},
    {"portable", weight_type::int8, input_form::floats, multiply_add::together, multiply<int8_weights>},
    {"portable", weight_type::q8_0, input_form::floats, multiply_add::together,
     multiply<block_weights<weight_type::q8_0>>},
    {"portable", weight_type::q4_0, input_form::floats, multiply_add::together,
     multiply<block_weights<weight_type::q4_0>>},
    {"portable", weight_type::q4_1, input_form::floats, multiply_add::together,
     multiply<block_weights<weight_type::q4_1>>},
};

}  // namespace

kernel_list const portable_kernels{list, sizeof list / sizeof *list};

}  // namespace multidraft::examples::product
