// The loops of a product, written once over the vectors of an instruction set.
//
// Everything here has internal linkage: the files that include this are compiled for different instruction sets, and
// the linker must not use the code of one in another. For the same reason they call no inline function of the standard
// library.
//
// An arithmetic A has
//
// - `sum`: 16 partial sums; `weights`, `inputs`: a step of a row.
// - `weight_bytes`, `input_bytes`: of a step.
// - `outputs(rows)`: the outputs of a tile of so many rows, a divisor of `panel`: their sums, a step of their weights
//   and one of inputs fit into the registers. `together`: the most rows.
// - `load(bytes)`, `read(bytes)`, `zero()`, `add(sum, weights, inputs)`, `totals(sums, n, out)`.
#pragma once

#include <cstddef>
#include <cstdint>

#include "transformer/product_kernel.hpp"

#if defined(__SSE__)
#include <immintrin.h>
#endif

// g++ 12 warns of the undefined operands of its own intrinsics (GCC bug 105593).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

#if defined(__clang__)
#define MULTIDRAFT_EXAMPLE_UNROLL _Pragma("clang loop unroll(full)")
#else
#define MULTIDRAFT_EXAMPLE_UNROLL _Pragma("GCC unroll 32")
#endif
#define MULTIDRAFT_EXAMPLE_INLINE inline __attribute__((always_inline))

namespace multidraft::examples::product {
namespace {

/// While it lives, denormal operands and results are 0, as in dot products of bfloat16.
class flush_denormals {
public:
#if defined(__SSE__)
    flush_denormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | 0x8040U); }
    ~flush_denormals() { _mm_setcsr(before_); }

private:
    unsigned before_;
#else
    flush_denormals() {}
#endif
};

/// Inputs of rows taken together that are used again and again should stay in the first-level cache: longer rows are
/// multiplied in pieces.
constexpr std::int32_t piece_bytes = 16384;

constexpr std::int32_t smaller(std::int32_t a, std::int32_t b) { return a < b ? a : b; }

/// The size of pieces of n things, at most `most` each and as even as possible.
constexpr std::int32_t evenly(std::int32_t n, std::int32_t most) {
    std::int32_t const pieces = (n + most - 1) / most;
    return (n + pieces - 1) / pieces;
}

/// Some rows of a task, and a panel of its outputs.
struct part {
    std::byte const* inputs;
    float* output;             ///< of output 0 of the first of these rows
    std::int32_t first, last;  ///< outputs
    bool fetch;                ///< whether to prefetch the next weights, which the first rows do for all
};

/// Adds `steps` steps to the sums of N outputs and R rows, and may prefetch the weights `ahead` bytes further on.
template <class A, std::size_t N, std::size_t R, bool fetch>
MULTIDRAFT_EXAMPLE_INLINE void accumulate(std::byte const* const (&weights)[N], std::byte const* inputs,
                                          std::int32_t steps, std::ptrdiff_t ahead, typename A::sum (&sums)[N * R]) {
    for (std::ptrdiff_t at = 0, end = std::ptrdiff_t{steps} * A::weight_bytes; at < end; at += A::weight_bytes) {
        typename A::weights w[N];
        MULTIDRAFT_EXAMPLE_UNROLL
        for (std::size_t n = 0; n < N; ++n) {
            w[n] = A::load(weights[n] + at);
            if constexpr (fetch) {
                MULTIDRAFT_EXAMPLE_UNROLL
                for (std::int32_t line = 0; line < A::weight_bytes; line += 64)
                    __builtin_prefetch(weights[n] + at + ahead + line, 0, 2);
            }
        }
        MULTIDRAFT_EXAMPLE_UNROLL
        for (std::size_t r = 0; r < R; ++r, inputs += A::input_bytes) {
            typename A::inputs const x = A::read(inputs);
            MULTIDRAFT_EXAMPLE_UNROLL
            for (std::size_t n = 0; n < N; ++n) sums[r * N + n] = A::add(sums[r * N + n], w[n], x);
        }
    }
}

/// Writes the totals of the outputs from n on, `there` of them.
template <std::size_t N, std::size_t R>
MULTIDRAFT_EXAMPLE_INLINE void store(task const& t, float* to, std::int32_t n, std::int32_t there,
                                     float (&totals)[N * R]) {
    if (t.scales != nullptr) {
        for (std::size_t r = 0; r < R; ++r)
            for (std::int32_t i = 0; i < there; ++i) totals[r * N + static_cast<std::size_t>(i)] *= t.scales[n + i];
    }
    for (std::size_t r = 0; r < R; ++r, to += t.output_row) {
        if (there == static_cast<std::int32_t>(N))
            __builtin_memcpy(to, totals + r * N, sizeof(float) * N);
        else
            for (std::int32_t i = 0; i < there; ++i) to[i] = totals[r * N + static_cast<std::size_t>(i)];
    }
}

template <class A, std::size_t R>
void multiply_panel(task const& t, part const& p) {
    constexpr std::size_t N = A::outputs(R);
    constexpr auto tile = static_cast<std::int32_t>(N);
    static_assert(panel % N == 0);
    constexpr std::ptrdiff_t inputs_of_step = static_cast<std::ptrdiff_t>(R) * A::input_bytes;
    typename A::sum kept[panel / N][N * R];  // between the pieces of rows
    constexpr auto most = static_cast<std::int32_t>(piece_bytes / inputs_of_step);
    std::int32_t const size = t.steps <= most ? t.steps : evenly(t.steps, most);
    for (std::int32_t begin = 0; begin < t.steps; begin += size) {
        std::int32_t const steps = smaller(size, t.steps - begin);
        bool const last_piece = begin + steps == t.steps;
        std::ptrdiff_t const offset = std::ptrdiff_t{begin} * A::weight_bytes;
        typename A::sum(*place)[N * R] = kept;
        for (std::int32_t n = p.first; n < p.last; n += tile, ++place) {
            std::int32_t const there = smaller(tile, p.last - n);
            std::byte const* const row = t.weights + static_cast<std::size_t>(n) * t.weight_row_bytes + offset;
            std::byte const* weights[N];  // missing rows repeat the first one
            MULTIDRAFT_EXAMPLE_UNROLL
            for (std::size_t i = 0; i < N; ++i)
                weights[i] = static_cast<std::int32_t>(i) < there ? row + i * t.weight_row_bytes : row;
            // How far on the weights lie that come after these: in the same rows, or in the next.
            std::ptrdiff_t ahead = 0;
            if (p.fetch) {
                std::int32_t const next = size == t.steps ? tile : panel;
                if (!last_piece)
                    ahead = std::ptrdiff_t{steps} * A::weight_bytes;
                else if (n + next < t.last)
                    ahead = next * static_cast<std::ptrdiff_t>(t.weight_row_bytes) - offset;
            }

            typename A::sum sums[N * R];
            if (begin == 0) {
                MULTIDRAFT_EXAMPLE_UNROLL
                for (std::size_t i = 0; i < N * R; ++i) sums[i] = A::zero();
            } else {
                MULTIDRAFT_EXAMPLE_UNROLL
                for (std::size_t i = 0; i < N * R; ++i) sums[i] = (*place)[i];
            }
            std::byte const* const inputs = p.inputs + begin * inputs_of_step;
            if (ahead != 0)
                accumulate<A, N, R, true>(weights, inputs, steps, ahead, sums);
            else
                accumulate<A, N, R, false>(weights, inputs, steps, ahead, sums);
            if (!last_piece) {
                MULTIDRAFT_EXAMPLE_UNROLL
                for (std::size_t i = 0; i < N * R; ++i) (*place)[i] = sums[i];
                continue;
            }
            float totals[N * R];
            A::totals(sums, totals);
            store<N, R>(t, p.output + n, n, there, totals);
        }
    }
}

template <class A>
void multiply_rows(task const& t, part const& p, std::int32_t rows) {
    switch (rows) {
        case 1:
            return multiply_panel<A, 1>(t, p);
        case 2:
            return multiply_panel<A, 2>(t, p);
        case 3:
            return multiply_panel<A, 3>(t, p);
        case 4:
            return multiply_panel<A, 4>(t, p);
        default:
            break;
    }
    if constexpr (A::together > 4) {
        switch (rows) {
            case 5:
                return multiply_panel<A, 5>(t, p);
            case 6:
                return multiply_panel<A, 6>(t, p);
            case 7:
                return multiply_panel<A, 7>(t, p);
            case 8:
                return multiply_panel<A, 8>(t, p);
            default:
                break;
        }
    }
}

template <class A>
void multiply(task const& t) {
    flush_denormals const scope;
    std::int32_t const groups = (t.rows + t.together - 1) / t.together;
    for (std::int32_t n = t.first; n < t.last; n += panel) {
        part p{t.inputs, t.output, n, smaller(n + panel, t.last), true};
        for (std::int32_t g = 0; g < groups; ++g) {
            std::int32_t const rows = t.rows / groups + (g < t.rows % groups ? 1 : 0);
            multiply_rows<A>(t, p, rows);
            p.inputs += std::ptrdiff_t{rows} * t.steps * A::input_bytes;
            p.output += static_cast<std::size_t>(rows) * t.output_row;
            p.fetch = false;
        }
    }
}

/// Stores 32 weights of 8 bits for the form `split`: those at odd places, then those at even ones.
inline void store_split(std::int8_t const* weights, std::byte* to) {
    for (std::int32_t i = 0; i < 16; ++i) {
        to[i] = static_cast<std::byte>(weights[2 * i + 1]);
        to[16 + i] = static_cast<std::byte>(weights[2 * i]);
    }
}

}  // namespace
}  // namespace multidraft::examples::product
