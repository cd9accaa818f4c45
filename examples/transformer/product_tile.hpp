// The loops of a product, written once over the vectors of an instruction set.
//
// Everything here has internal linkage: the files that include this are compiled for different instruction sets, and
// the linker must not use the code of one in another. For the same reason they call no inline function of the standard
// library.
//
// A tile is R rows by N panels of 16 outputs, whose sums stay in registers. An arithmetic A has
//
// - `vector`: sums of a panel and a row, which has `vectors` of them. `zero()`; `write(vector, float*)`.
// - `operand`: as much of the weights of a panel for one input (or pair of inputs) of a row; an input in all lanes.
// - A group of inputs has `parts`: `read_operands<part>(weights, operands)` and `input_at<part>(inputs)` read them from
//   the `group_bytes` of weights and the `group_input_bytes` of inputs. `add(vector, operand, input)`.
// - Weights in blocks, each of two steps: `read_scales(weights, scales)` makes its `scales` of the `scale_bytes` before
//   the groups of a block, and `read_operands<part>(weights, scales, operands)` takes them.
// - `together`: the most rows R; `of_many`: about as many in a call of many; `panels(R)`: the N for so many rows. There
//   are enough independent sums to hide the latency of the additions, few enough for the registers.
// - `keeps_inputs`: whether the registers also hold the weights of N panels, so that an input is read once for all of
//   them; otherwise it is read again for each.
// - With inputs in 8 bits: `integers`, the type of the vectors of weights; see product_bytes.hpp.
// - `half_bytes`, where three vectors times 3 or 4 rows are enough sums and one or two panels are not: the bytes of a
//   vector in a part. `add_wide<R, part>(weights, half, inputs, sums)` takes a panel and the vector that lies `half`
//   bytes further.
#pragma once

#include <cstddef>
#include <cstdint>

#include "transformer/product_kernel.hpp"
#include "transformer/unroll.hpp"

#if defined(__SSE__)
#include <immintrin.h>
#endif

// g++ 12 warns of the undefined operands of its own intrinsics (GCC bug 105593).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

#if defined(__clang__)
#define MULTIDRAFT_EXAMPLE_ROLLED _Pragma("clang loop unroll(disable)")
#else
#define MULTIDRAFT_EXAMPLE_ROLLED _Pragma("GCC unroll 1")
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
#elif defined(__aarch64__)
    flush_denormals() {
        __asm__ volatile("mrs %0, fpcr" : "=r"(before_));
        __asm__ volatile("msr fpcr, %0" : : "r"(before_ | std::uint64_t{1} << 24U));
    }
    ~flush_denormals() { __asm__ volatile("msr fpcr, %0" : : "r"(before_)); }

private:
    std::uint64_t before_;
#else
    flush_denormals() {}
#endif
};

/// Bytes of a row of inputs in a step, unless they are of 8 bits.
constexpr std::ptrdiff_t input_step = 64;

/// What `store_blocks` stores, whatever the vectors that read it: a group is 8 integers for each output, in one word of
/// 32 bits or two.
template <weight_type type>
struct block_layout {
    static constexpr std::int32_t bits = panel_weight_bytes(type) / 2;
    static constexpr std::size_t parts = 8;
    static constexpr std::ptrdiff_t group_input_bytes = 4 * parts;
    static constexpr std::ptrdiff_t group_bytes = bits * panel;
    /// Where the word of a part lies in the group, and the lowest bit of the part in it.
    static constexpr std::ptrdiff_t word(std::size_t part) {
        return static_cast<std::ptrdiff_t>(part) * bits / 32 * 64;
    }
    static constexpr std::int32_t shift(std::size_t part) { return static_cast<std::int32_t>(part) * bits % 32; }
    static constexpr std::ptrdiff_t scale_bytes = panel_scale_bytes(type);
    static constexpr std::int32_t largest = (1 << bits) - 1;
    /// A weight is d q + m. Where m is not stored, it is this multiple of d, and d q + m exact.
    static constexpr bool has_least = type == weight_type::q4_1;
    static constexpr float least = -static_cast<float>(1 << (bits - 1));
};

constexpr std::int32_t smaller(std::int32_t a, std::int32_t b) { return a < b ? a : b; }

MULTIDRAFT_EXAMPLE_INLINE void fetch(std::byte const* at) { __builtin_prefetch(at, 0, 2); }

template <class A>
concept arithmetic_in_blocks = requires {
    typename A::scales;
};

template <class A>
concept arithmetic_of_bytes = requires {
    typename A::integers;
};

/// What units have in common whose weights are read group by group.
template <class A>
struct unit_of_groups {
    static constexpr std::ptrdiff_t input_bytes = input_step;
    static constexpr std::ptrdiff_t fetch_distance = 4096;
    static constexpr std::ptrdiff_t fetches = input_step / A::group_input_bytes;
};
/// What is taken whole, a step or a block: its steps, its scales and the bytes of a panel's weights.
///
/// - `fetch_distance`: how far ahead of the product weights are fetched, in a tile that reads them from memory.
/// - `fetches`: how often a tile fetches for others in a step.
template <class A>
struct unit : unit_of_groups<A> {
    struct scales {};
    static constexpr std::int32_t steps = 1;
    static constexpr std::ptrdiff_t bytes = input_step / A::group_input_bytes * A::group_bytes;
};
template <arithmetic_in_blocks A>
struct unit<A> : unit_of_groups<A> {
    using scales = typename A::scales;
    static constexpr std::int32_t steps = 2;
    static constexpr std::ptrdiff_t bytes = A::scale_bytes + steps * input_step / A::group_input_bytes * A::group_bytes;
};
template <arithmetic_of_bytes A>
struct unit<A> {
    static constexpr std::int32_t steps = 1;
    static constexpr std::ptrdiff_t bytes = A::block_bytes;
    static constexpr std::ptrdiff_t input_bytes = byte_block_bytes;
    static constexpr std::ptrdiff_t fetch_distance = 16384;
    static constexpr std::ptrdiff_t fetches = (bytes + 63) / 64;
};

/// The weights of a part of a group.
template <class A, std::size_t part>
MULTIDRAFT_EXAMPLE_INLINE void read_part(std::byte const* from, typename unit<A>::scales const& scales,
                                         typename A::operand (&w)[A::vectors]) {
    if constexpr (arithmetic_in_blocks<A>)
        A::template read_operands<part>(from, scales, w);
    else
        A::template read_operands<part>(from, w);
}

/// Adds the products of a panel and a row.
template <class A, class Input>
MULTIDRAFT_EXAMPLE_INLINE void add_input(typename A::operand const (&w)[A::vectors], Input const& x,
                                         typename A::vector* sums) {
    MULTIDRAFT_EXAMPLE_UNROLL
    for (std::size_t v = 0; v < A::vectors; ++v) sums[v] = A::add(sums[v], w[v], x);
}

/// Adds the products of the parts of a group from `part` on. These are single vectors: g++ would store structures of
/// them in every round.
template <class A, std::size_t R, std::size_t N, std::size_t part = 0>
MULTIDRAFT_EXAMPLE_INLINE void add_parts(std::byte const* weights, std::ptrdiff_t panel_bytes, std::byte const* inputs,
                                         typename unit<A>::scales const (&scales)[N],
                                         typename A::vector (&sums)[R * N * A::vectors]) {
    if constexpr (A::keeps_inputs) {
        typename A::operand w[N][A::vectors];
        MULTIDRAFT_EXAMPLE_UNROLL
        for (std::size_t n = 0; n < N; ++n)
            read_part<A, part>(weights + static_cast<std::ptrdiff_t>(n) * panel_bytes, scales[n], w[n]);
        MULTIDRAFT_EXAMPLE_UNROLL
        for (std::size_t r = 0; r < R; ++r) {
            auto const x = A::template input_at<part>(inputs + static_cast<std::ptrdiff_t>(r) * input_step);
            MULTIDRAFT_EXAMPLE_UNROLL
            for (std::size_t n = 0; n < N; ++n) add_input<A>(w[n], x, sums + (r * N + n) * A::vectors);
        }
    } else {
        MULTIDRAFT_EXAMPLE_UNROLL
        for (std::size_t n = 0; n < N; ++n) {
            typename A::operand w[A::vectors];
            read_part<A, part>(weights + static_cast<std::ptrdiff_t>(n) * panel_bytes, scales[n], w);
            MULTIDRAFT_EXAMPLE_UNROLL
            for (std::size_t r = 0; r < R; ++r) {
                auto const x = A::template input_at<part>(inputs + static_cast<std::ptrdiff_t>(r) * input_step);
                add_input<A>(w, x, sums + (r * N + n) * A::vectors);
            }
        }
    }
    if constexpr (part + 1 < A::parts) add_parts<A, R, N, part + 1>(weights, panel_bytes, inputs, scales, sums);
}

/// Fetches `bytes` of each of N panels.
template <std::size_t N>
MULTIDRAFT_EXAMPLE_INLINE void fetch_panels(std::byte const* weights, std::ptrdiff_t panel_bytes,
                                            std::ptrdiff_t bytes) {
    MULTIDRAFT_EXAMPLE_UNROLL
    for (std::size_t n = 0; n < N; ++n) {
        MULTIDRAFT_EXAMPLE_UNROLL
        for (std::ptrdiff_t line = 0; line < bytes; line += 64)
            fetch(weights + static_cast<std::ptrdiff_t>(n) * panel_bytes + line);
    }
}

/// Weights that a tile fetches while it multiplies, for later tiles: `bytes` of them with each group of inputs.
struct fetched {
    std::byte const* at = nullptr;
    std::ptrdiff_t bytes = 0;
};
MULTIDRAFT_EXAMPLE_INLINE void fetch_step(fetched& others) {
    fetch(others.at);
    others.at += others.bytes;
}

/// Adds the products of as many blocks with inputs in 8 bits. Fetches as the next function does.
template <class A, std::size_t R, std::size_t N, bool streams>
MULTIDRAFT_EXAMPLE_INLINE void accumulate_bytes(std::byte const* weights, std::ptrdiff_t panel_bytes,
                                                std::byte const* inputs, std::int32_t blocks, std::ptrdiff_t ahead,
                                                fetched& others, typename A::vector (&sums)[R * N * A::vectors]) {
    constexpr auto next_row = unit<A>::input_bytes;
    MULTIDRAFT_EXAMPLE_ROLLED
    for (; blocks > 0; --blocks, inputs += static_cast<std::ptrdiff_t>(R) * next_row, weights += unit<A>::bytes) {
        if constexpr (streams) {
            fetch_panels<N>(weights + ahead, panel_bytes, unit<A>::bytes);
        } else {
            MULTIDRAFT_EXAMPLE_UNROLL
            for (std::ptrdiff_t i = 0; i < unit<A>::fetches; ++i) fetch_step(others);
        }
        MULTIDRAFT_EXAMPLE_UNROLL
        for (std::size_t n = 0; n < N; ++n) {
            MULTIDRAFT_EXAMPLE_UNROLL
            for (std::size_t v = 0; v < A::vectors; ++v) {
                typename A::integers w[A::operands];
                typename A::vector d, m;
                A::read_block(weights + static_cast<std::ptrdiff_t>(n) * panel_bytes, v, w, d, m);
                MULTIDRAFT_EXAMPLE_UNROLL
                for (std::size_t r = 0; r < R; ++r) {
                    auto& sum = sums[(r * N + n) * A::vectors + v];
                    sum = A::add_block(sum, w, d, m, inputs + static_cast<std::ptrdiff_t>(r) * next_row);
                }
            }
        }
    }
}

/// Adds the products of `steps` steps. Fetches the weights that lie `ahead` bytes further on if it `streams`, otherwise
/// those of `others`.
template <class A, std::size_t R, std::size_t N, bool streams>
MULTIDRAFT_EXAMPLE_INLINE void accumulate(std::byte const* weights, std::ptrdiff_t panel_bytes, std::byte const* inputs,
                                          std::int32_t steps, std::ptrdiff_t ahead, fetched& others,
                                          typename A::vector (&sums)[R * N * A::vectors]) {
    typename unit<A>::scales scales[N];
    for (std::int32_t s = 0; s < steps; ++s, inputs += static_cast<std::ptrdiff_t>(R) * input_step) {
        if constexpr (arithmetic_in_blocks<A>) {
            if (s % unit<A>::steps == 0) {
                if constexpr (streams) fetch_panels<N>(weights + ahead, panel_bytes, A::scale_bytes);
                MULTIDRAFT_EXAMPLE_UNROLL
                for (std::size_t n = 0; n < N; ++n)
                    A::read_scales(weights + static_cast<std::ptrdiff_t>(n) * panel_bytes, scales[n]);
                weights += A::scale_bytes;
            }
        }
        MULTIDRAFT_EXAMPLE_ROLLED
        for (std::ptrdiff_t at = 0; at < input_step; at += A::group_input_bytes, weights += A::group_bytes) {
            if constexpr (streams)
                fetch_panels<N>(weights + ahead, panel_bytes, A::group_bytes);
            else
                fetch_step(others);
            add_parts<A, R, N>(weights, panel_bytes, inputs + at, scales, sums);
        }
    }
}

template <class A, std::size_t R, std::size_t N, bool streams>
MULTIDRAFT_EXAMPLE_INLINE void add_steps(std::byte const* weights, std::ptrdiff_t panel_bytes, std::byte const* inputs,
                                         std::int32_t steps, std::ptrdiff_t ahead, fetched& others,
                                         typename A::vector (&sums)[R * N * A::vectors]) {
    if constexpr (arithmetic_of_bytes<A>)
        accumulate_bytes<A, R, N, streams>(weights, panel_bytes, inputs, steps, ahead, others, sums);
    else
        accumulate<A, R, N, streams>(weights, panel_bytes, inputs, steps, ahead, others, sums);
}

/// Writes the sums of the outputs from `begin` on, `count` of them.
template <std::size_t count>
MULTIDRAFT_EXAMPLE_INLINE void write_outputs(task const& t, float (&totals)[count], std::int32_t begin, float* row) {
    std::int32_t const there = smaller(static_cast<std::int32_t>(count), t.outputs - begin);
    if (t.scales != nullptr)
        for (std::int32_t i = 0; i < there; ++i) totals[i] *= t.scales[begin + i];
    if (there == static_cast<std::int32_t>(count))
        __builtin_memcpy(row + begin, totals, sizeof totals);
    else
        for (std::int32_t i = 0; i < there; ++i) row[begin + i] = totals[i];
}

/// Writes the sums of N panels of each row. Unrolled: an index that is not known would keep them in memory all along.
template <class A, std::size_t N, std::size_t count>
MULTIDRAFT_EXAMPLE_INLINE void write_sums(typename A::vector const (&sums)[count], float* to, std::size_t next_row) {
    MULTIDRAFT_EXAMPLE_UNROLL
    for (std::size_t k = 0; k < count; ++k) {
        std::size_t const tile = k / A::vectors;
        A::write(sums[k], to + tile / N * next_row + tile % N * panel + k % A::vectors * (panel / A::vectors));
    }
}

/// The sums of R rows and N panels from panel `p` on.
template <class A, std::size_t R, std::size_t N, bool streams>
void multiply_tile(task const& t, std::int32_t p, std::byte const* inputs, float* output, fetched& others) {
    std::ptrdiff_t const panel_bytes = t.steps / unit<A>::steps * unit<A>::bytes;
    std::byte const* weights = t.weights + p * panel_bytes;
    typename A::vector sums[R * N * A::vectors];
    MULTIDRAFT_EXAMPLE_UNROLL
    for (auto& sum : sums) sum = A::zero();
    if constexpr (streams && N == 1) {
        // The next tile follows in memory.
        add_steps<A, R, N, true>(weights, panel_bytes, inputs, t.steps, unit<A>::fetch_distance, others, sums);
    } else if constexpr (streams) {
        // At the end of a panel follows that of the next tile.
        std::int32_t const last =
            smaller(t.steps / unit<A>::steps, static_cast<std::int32_t>(unit<A>::fetch_distance / unit<A>::bytes));
        std::int32_t units = t.steps / unit<A>::steps - last;
        std::ptrdiff_t ahead = unit<A>::fetch_distance;
        // Unrolled it would be the same code twice.
        MULTIDRAFT_EXAMPLE_ROLLED
        for (std::int32_t part = 0; part < 2; ++part) {
            std::int32_t const steps = units * unit<A>::steps;
            add_steps<A, R, N, true>(weights, panel_bytes, inputs, steps, ahead, others, sums);
            weights += units * unit<A>::bytes;
            inputs += steps * static_cast<std::ptrdiff_t>(R) * unit<A>::input_bytes;
            units = last;
            ahead = last * unit<A>::bytes + static_cast<std::ptrdiff_t>(N - 1) * panel_bytes;
        }
    } else {
        add_steps<A, R, N, false>(weights, panel_bytes, inputs, t.steps, 0, others, sums);
    }
    std::int32_t const begin = p * panel;
    if (t.scales == nullptr && begin + static_cast<std::int32_t>(N) * panel <= t.outputs)
        return write_sums<A, N>(sums, output + begin, t.output_row);
    float totals[R * N][panel];
    write_sums<A, N>(sums, totals[0], N * panel);
    MULTIDRAFT_EXAMPLE_ROLLED
    for (std::size_t k = 0; k < R * N; ++k)
        write_outputs(t, totals[k], begin + static_cast<std::int32_t>(k % N) * panel, output + k / N * t.output_row);
}

template <class A>
concept has_wide_tiles = requires {
    A::half_bytes;
};

/// Whether tiles of so many rows are of a panel and half of another.
template <class A>
constexpr bool wide(std::size_t rows) {
    return has_wide_tiles<A> && (rows == 3 || rows == 4);
}

/// The same for panel `p` and a half of panel `of`, the second if `upper`. Panels follow each other in memory: at the
/// end of one, what is fetched ahead is of the next.
template <class A, std::size_t R, bool streams>
void multiply_wide_tile(task const& t, std::int32_t p, std::int32_t of, bool upper, std::byte const* inputs,
                        float* output, fetched& others) {
    std::ptrdiff_t const panel_bytes = t.steps / unit<A>::steps * unit<A>::bytes;
    std::byte const* weights = t.weights + p * panel_bytes;
    std::ptrdiff_t const half = (of - p) * panel_bytes + (upper ? A::half_bytes : 0);
    typename A::vector sums[3 * R];
    MULTIDRAFT_EXAMPLE_UNROLL
    for (auto& sum : sums) sum = A::zero();
    for (std::int32_t s = 0; s < t.steps; ++s, inputs += static_cast<std::ptrdiff_t>(R) * input_step) {
        MULTIDRAFT_EXAMPLE_ROLLED
        for (std::ptrdiff_t at = 0; at < input_step; at += A::group_input_bytes, weights += A::group_bytes) {
            if constexpr (streams)
                fetch_panels<2>(weights + unit<A>::fetch_distance, half, A::group_bytes);
            else
                fetch_step(others);
            A::template add_wide<R, 0>(weights, half, inputs + at, sums);
            A::template add_wide<R, 1>(weights, half, inputs + at, sums);
        }
    }
    constexpr std::int32_t lanes = panel / 2;
    MULTIDRAFT_EXAMPLE_UNROLL
    for (std::size_t r = 0; r < R; ++r) {
        float whole[panel], rest[lanes];
        A::write(sums[3 * r], whole);
        A::write(sums[3 * r + 1], whole + lanes);
        A::write(sums[3 * r + 2], rest);
        write_outputs(t, whole, p * panel, output + r * t.output_row);
        write_outputs(t, rest, of * panel + (upper ? lanes : 0), output + r * t.output_row);
    }
}

/// R rows and the panels from `p` to `end`, at most N.
template <class A, std::size_t R, bool streams>
void multiply_rows(task const& t, std::int32_t p, std::int32_t end, std::byte const* inputs, float* output,
                   fetched& others) {
    constexpr std::size_t N = A::panels(R);
    if constexpr (wide<A>(R)) {
        if (end - p == 3) {
            multiply_wide_tile<A, R, streams>(t, p, p + 1, false, inputs, output, others);
            return multiply_wide_tile<A, R, streams>(t, p + 2, p + 1, true, inputs, output, others);
        }
    }
    if (end - p == static_cast<std::int32_t>(N)) return multiply_tile<A, R, N, streams>(t, p, inputs, output, others);
    for (; p < end; ++p) multiply_tile<A, R, 1, streams>(t, p, inputs, output, others);
}

/// The fewest rows of a group where there are several.
template <class A>
constexpr std::size_t least_of_many() {
    std::int32_t least = A::together;
    for (std::int32_t rows = 1; rows <= 4 * A::together; ++rows) {
        row_groups const groups(rows, A::together, A::of_many);
        if (groups.count > 1) least = smaller(least, rows / groups.count);
    }
    return static_cast<std::size_t>(least);
}

/// The same for a number of rows that is not known when this is compiled.
template <class A, std::size_t R, bool streams>
void multiply_some(std::int32_t rows, task const& t, std::int32_t p, std::int32_t end, std::byte const* inputs,
                   float* output, fetched& others) {
    if (rows == static_cast<std::int32_t>(R)) return multiply_rows<A, R, streams>(t, p, end, inputs, output, others);
    if constexpr (R > (streams ? 1 : least_of_many<A>()))
        multiply_some<A, R - 1, streams>(rows, t, p, end, inputs, output, others);
}

/// The tiles that so many rows and `width` panels are.
template <class A>
constexpr std::int32_t tiles_of(std::size_t rows, std::int32_t width) {
    if (wide<A>(rows) && width == 3) return 2;
    return static_cast<std::int32_t>(A::panels(rows)) == width ? 1 : width;
}

template <class A>
void multiply(task const& t) {
    flush_denormals const scope;
    row_groups const groups(t.rows, A::together, A::of_many);
    if (groups.count == 1) {
        auto const rows = static_cast<std::size_t>(t.rows);
        auto const width = static_cast<std::int32_t>(wide<A>(rows) ? 3 : A::panels(rows));
        fetched none;
        for (std::int32_t p = t.first; p < t.last; p += width)
            multiply_some<A, A::together, true>(t.rows, t, p, smaller(p + width, t.last), t.inputs, t.output, none);
        return;
    }
    // A few panels stay in a cache while group after group of rows is multiplied by them; meanwhile the next are
    // fetched.
    constexpr std::int32_t width = wide<A>(A::of_many) ? 3 : 2;
    std::ptrdiff_t const panel_bytes = t.steps / unit<A>::steps * unit<A>::bytes;
    std::ptrdiff_t fetches = 0;
    for (std::int32_t g = 0; g < groups.count; ++g)
        fetches += tiles_of<A>(static_cast<std::size_t>(groups.size(g)), width) * t.steps * unit<A>::fetches;
    for (std::int32_t p = t.first; p < t.last; p += width) {
        std::int32_t const end = smaller(p + width, t.last);
        std::int32_t const next = smaller(end + width, t.last);
        fetched others{t.weights + end * panel_bytes, ((next - end) * panel_bytes + fetches - 1) / fetches};
        std::byte const* inputs = t.inputs;
        float* output = t.output;
        for (std::int32_t g = 0; g < groups.count; ++g) {
            std::int32_t const rows = groups.size(g);
            multiply_some<A, A::together, false>(rows, t, p, end, inputs, output, others);
            inputs += rows * std::ptrdiff_t{t.steps} * unit<A>::input_bytes;
            output += static_cast<std::size_t>(rows) * t.output_row;
        }
    }
}

/// The kernel of an arithmetic.
template <class A>
constexpr kernel kernel_of(char const* name, weight_type weights, input_form inputs) {
    return {name, weights, inputs, A::together, A::of_many, multiply<A>};
}

}  // namespace
}  // namespace multidraft::examples::product
