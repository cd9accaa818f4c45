// Inputs and weights of 8 bits as the kernels of products read them.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "transformer/product.hpp"
#include "transformer/vectors.hpp"

namespace multidraft::examples::product {
namespace {

using namespace kernels;
using bytes = std::int8_t __attribute__((vector_size(lanes)));

/// Two vectors of numbers in order, as those at odd places and those at even ones.
MULTIDRAFT_INLINE void split(floats a, floats b, float* to) {
    store(to, __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31));
    store(to + lanes, __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30));
}

/// The nearest bfloat16, as a float.
MULTIDRAFT_INLINE floats as_bfloat16(floats v) {
    words const bits = __builtin_convertvector(rounded(v), words) << 16;
    floats nearest;
    std::memcpy(&nearest, &bits, sizeof nearest);
    return nearest;
}

struct layout {
    input_form form;
    std::int32_t step;
    bool rounded;
};

MULTIDRAFT_INLINE void store_step(layout const& as, float const* from, std::byte* to) {
    for (std::int32_t i = 0; i < as.step; i += 2 * lanes) {
        floats const a = load(from + i);
        floats const b = load(from + i + lanes);
        if (as.form == input_form::pairs) {
            auto* const halves_at = reinterpret_cast<bfloat16*>(to) + i;
            store(halves_at, a);
            store(halves_at + lanes, b);
        } else if (as.rounded) {
            split(as_bfloat16(a), as_bfloat16(b), reinterpret_cast<float*>(to) + i);
        } else {
            split(a, b, reinterpret_cast<float*>(to) + i);
        }
    }
}

MULTIDRAFT_EXAMPLE_CLONES
void store_rows(layout const& as, float const* rows, std::size_t stride, std::int32_t count, std::int32_t inputs,
                std::int32_t step_bytes, std::byte* to) {
    std::int32_t const whole = inputs - inputs % as.step;
    for (std::int32_t at = 0; at < whole; at += as.step)
        for (std::int32_t r = 0; r < count; ++r, to += step_bytes)
            store_step(as, rows + static_cast<std::size_t>(r) * stride + at, to);
    if (whole == inputs) return;
    for (std::int32_t r = 0; r < count; ++r, to += step_bytes) {
        std::array<float, 64> rest{};
        std::copy_n(rows + static_cast<std::size_t>(r) * stride + whole, inputs - whole, rest.begin());
        store_step(as, rest.data(), to);
    }
}

/// The largest magnitude, and with a factor for it the nearest integers.
MULTIDRAFT_EXAMPLE_CLONES
float largest(float const* numbers, std::int32_t n) {
    floats most{};
    for (std::int32_t i = 0; i < n; i += lanes) {
        floats const x = load(numbers + i, n - i);
        floats const size = x < 0.0F ? -x : x;
        most = size > most ? size : most;
    }
    float all = 0;
    for (std::int32_t l = 0; l < lanes; ++l) all = std::max(all, most[l]);
    return all;
}

MULTIDRAFT_EXAMPLE_CLONES
void nearest_integers(float const* numbers, std::int32_t n, float factor, std::int8_t* to) {
    for (std::int32_t i = 0; i < n; i += lanes) {
        // Added to 1.5 * 2^23 a number is rounded to an integer, ties to even.
        floats const nearest = (load(numbers + i, n - i) * factor + 12582912.0F) - 12582912.0F;
        bytes const integers = __builtin_convertvector(__builtin_convertvector(nearest, ints), bytes);
        std::memcpy(to + i, &integers, sizeof integers);
    }
}

}  // namespace

void pack(kernel const& k, float const* rows, std::size_t stride, std::int32_t count, std::int32_t inputs,
          std::int32_t together, bool rounded, std::byte* to) {
    std::int32_t const groups = (count + together - 1) / together;
    std::size_t const row_bytes = packed_bytes(k, inputs, 1);
    for (std::int32_t g = 0; g < groups; ++g) {
        std::int32_t const taken = count / groups + (g < count % groups ? 1 : 0);
        store_rows({k.inputs, k.step, rounded}, rows, stride, taken, inputs, k.input_bytes(), to);
        rows += static_cast<std::size_t>(taken) * stride;
        to += static_cast<std::size_t>(taken) * row_bytes;
    }
}

float store_row(kernel const& k, float const* row, std::int32_t inputs, std::byte* to) {
    constexpr std::int32_t taken = 512;  // a multiple of every step
    // A row of zeros, or of numbers so small that the quotient would overflow, becomes zeros.
    float const scale = largest(row, inputs) / 127;
    float const factor = std::isfinite(1 / scale) ? 1 / scale : 0;
    for (std::int32_t at = 0; at < inputs; at += taken) {
        std::int32_t const count = std::min(taken, inputs - at);
        std::array<std::int8_t, taken> integers{};
        nearest_integers(row + at, count, factor, integers.data());
        for (std::int32_t i = 0; i < count; i += k.step, to += k.weight_bytes()) k.store(integers.data() + i, to);
    }
    return factor == 0 ? 0 : scale;
}

}  // namespace multidraft::examples::product
