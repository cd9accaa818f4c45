// Products in plain C++, for CPUs without the instructions of the other files.

#include "transformer/product_kernel.hpp"
#include "transformer/product_tile.hpp"

namespace multidraft::examples::product {
namespace {

/// Fused where the CPU has it, otherwise two roundings: the library function would be many times slower.
MULTIDRAFT_EXAMPLE_INLINE float multiplied(float a, float b, float c) {
#if defined(__FP_FAST_FMAF) || defined(__FMA__)
    return __builtin_fmaf(a, b, c);
#else
    return a * b + c;
#endif
}

struct multiply_add {
    struct sum {
        float lane[16];
    };
    struct floats {
        sum odd, even;
    };
    using weights = floats;
    using inputs = floats;
    static constexpr std::int32_t input_bytes = 128;
    static constexpr std::int32_t together = 4;
    static constexpr std::size_t outputs(std::size_t) { return 1; }

    static MULTIDRAFT_EXAMPLE_INLINE sum zero() { return {}; }
    static MULTIDRAFT_EXAMPLE_INLINE inputs read(std::byte const* from) {
        inputs x;
        __builtin_memcpy(&x, from, sizeof x);
        return x;
    }
    static MULTIDRAFT_EXAMPLE_INLINE sum add(sum s, weights const& w, inputs const& x) {
        for (std::int32_t l = 0; l < 16; ++l)
            s.lane[l] = multiplied(w.even.lane[l], x.even.lane[l], multiplied(w.odd.lane[l], x.odd.lane[l], s.lane[l]));
        return s;
    }
    template <std::size_t n>
    static MULTIDRAFT_EXAMPLE_INLINE void totals(sum const (&sums)[n], float (&out)[n]) {
        for (std::size_t i = 0; i < n; ++i) {
            sum s = sums[i];
            for (std::int32_t half = 8; half > 0; half /= 2)
                for (std::int32_t l = 0; l < half; ++l) s.lane[l] += s.lane[l + half];
            out[i] = s.lane[0];
        }
    }
};

struct bf16_weights : multiply_add {
    static constexpr std::int32_t weight_bytes = 64;
    static MULTIDRAFT_EXAMPLE_INLINE weights load(std::byte const* from) {
        std::uint16_t half[32];
        __builtin_memcpy(half, from, sizeof half);
        std::uint32_t odd[16];
        std::uint32_t even[16];
        for (std::int32_t l = 0; l < 16; ++l) {
            odd[l] = std::uint32_t{half[2 * l + 1]} << 16U;
            even[l] = std::uint32_t{half[2 * l]} << 16U;
        }
        weights w;
        __builtin_memcpy(&w.odd, odd, sizeof odd);
        __builtin_memcpy(&w.even, even, sizeof even);
        return w;
    }
};

struct f32_weights : multiply_add {
    static constexpr std::int32_t weight_bytes = 128;
    static MULTIDRAFT_EXAMPLE_INLINE weights load(std::byte const* from) {
        float all[32];
        __builtin_memcpy(all, from, sizeof all);
        weights w;
        for (std::int32_t l = 0; l < 16; ++l) {
            w.odd.lane[l] = all[2 * l + 1];
            w.even.lane[l] = all[2 * l];
        }
        return w;
    }
};

struct int8_weights : multiply_add {
    static constexpr std::int32_t weight_bytes = 32;
    static MULTIDRAFT_EXAMPLE_INLINE weights load(std::byte const* from) {
        weights w;
        for (std::int32_t l = 0; l < 16; ++l) {
            w.odd.lane[l] = static_cast<std::int8_t>(from[l]);
            w.even.lane[l] = static_cast<std::int8_t>(from[16 + l]);
        }
        return w;
    }
};

constexpr kernel list[] = {
    {"portable", weight_type::bf16, input_form::split, 32, multiply_add::together, multiply<bf16_weights>, nullptr},
    {"portable", weight_type::f32, input_form::split, 32, multiply_add::together, multiply<f32_weights>, nullptr},
    {"portable", weight_type::int8, input_form::split, 32, multiply_add::together, multiply<int8_weights>, store_split},
};

}  // namespace

kernel_list const portable_kernels{list, sizeof list / sizeof *list};

}  // namespace multidraft::examples::product
