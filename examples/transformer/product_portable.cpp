// Products in plain C++, for CPUs without the instructions of the other files. With vectors of four numbers and fused
// multiply-adds, as in NEON, the compiler keeps the sums of a tile in registers.

#include "transformer/product_kernel.hpp"
#include "transformer/product_tile.hpp"

namespace multidraft::examples::product {
namespace {

/// Four numbers, in a vector where the CPU has one of that size.
using four __attribute__((vector_size(16))) = float;
using four_bits __attribute__((vector_size(16))) = std::uint32_t;

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
    /// The second of two inputs comes first, as in dot products of pairs.
    template <std::size_t part>
    static MULTIDRAFT_EXAMPLE_INLINE float input_at(std::byte const* from) {
        float x;
        __builtin_memcpy(&x, from + (part == 0 ? 4 : 0), sizeof x);
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

constexpr kernel list[] = {
    {"portable", weight_type::bf16, input_form::floats, multiply_add::together, multiply<bf16_weights>},
    {"portable", weight_type::f32, input_form::floats, multiply_add::together, multiply<f32_weights>},
    {"portable", weight_type::int8, input_form::floats, multiply_add::together, multiply<int8_weights>},
};

}  // namespace

kernel_list const portable_kernels{list, sizeof list / sizeof *list};

}  // namespace multidraft::examples::product
