// Products in plain C++, for CPUs without the instructions of the other files. With vectors of four numbers and fused
// multiply-adds, as in NEON, the compiler keeps the sums of a tile in registers.

#include "transformer/product_bytes.hpp"
#include "transformer/product_kernel.hpp"

namespace multidraft::examples::product {
namespace {

/// Four numbers, in a vector where the CPU has one of that size.
using four __attribute__((vector_size(16))) = float;
using four_bits __attribute__((vector_size(16))) = std::uint32_t;
using four_integers __attribute__((vector_size(16))) = std::int32_t;

/// Fused where the CPU has it, otherwise two roundings: the library function would be many times slower.
template <class X>
MULTIDRAFT_EXAMPLE_INLINE four multiplied_and_added(four a, X x, four c) {
#if defined(__FP_FAST_FMAF) || defined(__FMA__)
    four const factors = four{} + x;
    MULTIDRAFT_EXAMPLE_UNROLL
    for (std::int32_t l = 0; l < 4; ++l) c[l] = __builtin_fmaf(a[l], factors[l], c[l]);
    return c;
#else
    return a * x + c;
#endif
}

MULTIDRAFT_EXAMPLE_INLINE float half_at(std::byte const* from) {
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

struct multiply_add {
    using vector = four;
    using operand = four;
    static constexpr std::size_t vectors = 4;
    static constexpr bool keeps_inputs = false;
    static constexpr std::size_t parts = 2;
    static constexpr std::ptrdiff_t group_input_bytes = 8;
#if defined(__aarch64__)
    static constexpr std::int32_t together = 6;
    static constexpr std::int32_t of_many = together;
    static constexpr std::size_t panels(std::size_t rows) { return rows <= 2 ? 2 : 1; }
#else
    static constexpr std::int32_t together = 2;
    static constexpr std::int32_t of_many = together;
    static constexpr std::size_t panels(std::size_t rows) { return rows == 1 ? 2 : 1; }
#endif

    static MULTIDRAFT_EXAMPLE_INLINE four zero() { return four{}; }
    static MULTIDRAFT_EXAMPLE_INLINE four add(four s, four w, float x) { return multiplied_and_added(w, x, s); }
    static MULTIDRAFT_EXAMPLE_INLINE void write(four s, float* to) { __builtin_memcpy(to, &s, sizeof s); }
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
    static MULTIDRAFT_EXAMPLE_INLINE void read_operands(std::byte const* from, four (&w)[vectors]) {
        MULTIDRAFT_EXAMPLE_UNROLL
        for (std::size_t v = 0; v < vectors; ++v) {
            four_bits bits;
            __builtin_memcpy(&bits, from + 16 * v, sizeof bits);
            if constexpr (part == 0)
                bits &= 0xffff0000U;
            else
                bits <<= 16U;
            __builtin_memcpy(&w[v], &bits, sizeof bits);
        }
    }
};

struct f32_weights : multiply_add {
    static constexpr std::ptrdiff_t group_bytes = 128;
    template <std::size_t part>
    static MULTIDRAFT_EXAMPLE_INLINE void read_operands(std::byte const* from, four (&w)[vectors]) {
        MULTIDRAFT_EXAMPLE_UNROLL
        for (std::size_t v = 0; v < vectors; ++v) __builtin_memcpy(&w[v], from + 64 * part + 16 * v, sizeof w[v]);
    }
};

struct int8_weights : multiply_add {
    static constexpr std::ptrdiff_t group_bytes = 32;
    template <std::size_t part>
    static MULTIDRAFT_EXAMPLE_INLINE void read_operands(std::byte const* from, four (&w)[vectors]) {
        MULTIDRAFT_EXAMPLE_UNROLL
        for (std::int32_t i = 0; i < panel; ++i)
            w[i / 4][i % 4] =
                static_cast<float>(static_cast<std::int8_t>(from[16 * part + static_cast<std::size_t>(i)]));
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
    static MULTIDRAFT_EXAMPLE_INLINE void read_operands(std::byte const* from, scales const& of, four (&w)[vectors]) {
        constexpr std::int32_t shift = layout::shift(part);
        MULTIDRAFT_EXAMPLE_UNROLL
        for (std::size_t v = 0; v < vectors; ++v) {
            four_bits q;
            __builtin_memcpy(&q, from + layout::word(part) + 16 * v, sizeof q);
            if constexpr (shift > 0) q >>= static_cast<std::uint32_t>(shift);
            if constexpr (shift + layout::bits < 32) q &= static_cast<std::uint32_t>(layout::largest);
            // Fused or not: the product is exact.
            w[v] = __builtin_convertvector(reinterpret_cast<four_integers>(q), four) * of.d[v] + of.m[v];
        }
    }
};

/// What product_bytes.hpp needs, in plain C++.
struct bytes_in_4_lanes {
    using integers = four_bits;
    using floats = four;
    static constexpr std::size_t lanes = 4;
    static constexpr bool has_dot = true;
    static constexpr std::int32_t together = multiply_add::together;
    static constexpr std::int32_t of_many = together;
    static constexpr std::size_t panels(std::size_t) { return 1; }

    static MULTIDRAFT_EXAMPLE_INLINE four zero() { return four{}; }
    static MULTIDRAFT_EXAMPLE_INLINE four_bits no_integers() { return four_bits{}; }
    static MULTIDRAFT_EXAMPLE_INLINE void write(four s, float* to) { __builtin_memcpy(to, &s, sizeof s); }
    static MULTIDRAFT_EXAMPLE_INLINE four_bits load(std::byte const* from) {
        four_bits bits;
        __builtin_memcpy(&bits, from, sizeof bits);
        return bits;
    }
    static MULTIDRAFT_EXAMPLE_INLINE four_bits broadcast(std::byte const* from) {
        std::uint32_t bits;
        __builtin_memcpy(&bits, from, sizeof bits);
        return four_bits{} + bits;
    }
    static MULTIDRAFT_EXAMPLE_INLINE float all(std::byte const* from) {
        float x;
        __builtin_memcpy(&x, from, sizeof x);
        return x;
    }
    static MULTIDRAFT_EXAMPLE_INLINE four_bits low_nibbles(four_bits x) { return x & 0x0f0f0f0fU; }
    static MULTIDRAFT_EXAMPLE_INLINE four_bits high_nibbles(four_bits x) { return (x >> 4U) & 0x0f0f0f0fU; }
    static MULTIDRAFT_EXAMPLE_INLINE four_bits dot(four_bits sums, four_bits weights, four_bits inputs) {
        MULTIDRAFT_EXAMPLE_UNROLL
        for (std::uint32_t bit = 0; bit < 32; bit += 8) {
            four_integers const x = reinterpret_cast<four_integers>(inputs << (24 - bit)) >> 24;
            sums += ((weights >> bit) & 0xffU) * reinterpret_cast<four_bits>(x);
        }
        return sums;
    }
    static MULTIDRAFT_EXAMPLE_INLINE four_bits add32(four_bits a, four_bits b) { return a + b; }
    static MULTIDRAFT_EXAMPLE_INLINE four to_floats(four_bits x) {
        return __builtin_convertvector(reinterpret_cast<four_integers>(x), four);
    }
    static MULTIDRAFT_EXAMPLE_INLINE four halves(std::byte const* from) {
        return four{half_at(from), half_at(from + 2), half_at(from + 4), half_at(from + 6)};
    }
    static MULTIDRAFT_EXAMPLE_INLINE four multiplied(four a, float b) { return a * b; }
    static MULTIDRAFT_EXAMPLE_INLINE four add(four sum, four a, float b) { return multiplied_and_added(a, b, sum); }
    static MULTIDRAFT_EXAMPLE_INLINE four add(four sum, four a, four b) { return multiplied_and_added(a, b, sum); }
};

constexpr kernel list[] = {
    kernel_of<bf16_weights>("portable", weight_type::bf16, input_form::floats),
    kernel_of<f32_weights>("portable", weight_type::f32, input_form::floats),
    kernel_of<int8_weights>("portable", weight_type::int8, input_form::floats),
    kernel_of<block_weights<weight_type::q8_0>>("portable", weight_type::q8_0, input_form::floats),
    kernel_of<block_weights<weight_type::q4_0>>("portable", weight_type::q4_0, input_form::floats),
    kernel_of<block_weights<weight_type::q4_1>>("portable", weight_type::q4_1, input_form::floats),
    kernel_of<byte_inputs<bytes_in_4_lanes, weight_type::q8_0>>("portable", weight_type::q8_0, input_form::bytes),
    kernel_of<byte_inputs<bytes_in_4_lanes, weight_type::q4_0>>("portable", weight_type::q4_0, input_form::bytes),
    kernel_of<byte_inputs<bytes_in_4_lanes, weight_type::q4_1>>("portable", weight_type::q4_1, input_form::bytes),
};

}  // namespace

kernel_list const portable_kernels{list, sizeof list / sizeof *list};

}  // namespace multidraft::examples::product
