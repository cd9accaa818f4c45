// Products of weights in blocks with inputs in 8 bits, written once over the vectors V of integers of an instruction
// set: dot products of integers, which are exact, then a multiply-add of floats for each block of 32 inputs.
//
// V has
//
// - `integers`, `floats`, and `lanes`, the 32-bit lanes of either. `load(from)`; `broadcast(from)`, four bytes in all
//   lanes; `low_nibbles`, `high_nibbles`, of each byte. `to_floats(integers)`, `halves(from)`, `all(float const*)`,
//   `multiplied(a, b)`, `add(sum, a, b)`, a multiply-add, `zero()`, `no_integers()`, `write(floats, to)`.
// - `has_dot`; then `dot(sums, weights, inputs)` adds the products of four bytes of a lane, of which weights have no
//   sign. Otherwise `pairs(weights, inputs)` gives sums of two such products in 16 bits; `add16`, `add32`;
//   `widened(pairs, factor)`, their sums by lanes of 32 bits, times 1 or 16.
// - `together`, `of_many` and `panels(R)` as arithmetics have them.
#pragma once

#include "transformer/product_tile.hpp"

namespace multidraft::examples::product {
namespace {

template <class V, weight_type type>
struct byte_inputs : V {
    using vector = typename V::floats;
    using integers = typename V::integers;
    static constexpr std::int32_t bits = panel_weight_bytes(type) / 2;
    static constexpr bool has_least = type == weight_type::q4_1;
    static constexpr std::size_t vectors = static_cast<std::size_t>(panel) / V::lanes;
    static constexpr std::ptrdiff_t scale_bytes = panel_scale_bytes(type);
    static constexpr std::ptrdiff_t block_bytes = scale_bytes + std::ptrdiff_t{block_inputs} * panel_weight_bytes(type);

    static constexpr std::size_t words = 8;  // of four inputs
    /// Sums of two products of 8 bits do not fit in 16: then the weights are taken as nibbles, the low ones of all
    /// words and then the high ones.
    static constexpr bool in_nibbles = bits == 8 && !V::has_dot;
    static constexpr std::size_t operands = in_nibbles ? 2 * words : words;

    /// The weights of vector `v` of a panel's block, taken out of their words, and their scales.
    static MULTIDRAFT_EXAMPLE_INLINE void read_block(std::byte const* from, std::size_t v, integers (&w)[operands],
                                                     vector& d, vector& m) {
        auto const width = static_cast<std::ptrdiff_t>(V::lanes * v);
        d = V::halves(from + 2 * width);
        if constexpr (has_least) m = V::halves(from + 2 * panel + 2 * width);
        read_weights(from + scale_bytes + 4 * width, w);
    }

    /// Adds their products with a row of inputs.
    static MULTIDRAFT_EXAMPLE_INLINE vector add_block(vector sum, integers const (&w)[operands], vector d, vector m,
                                                      std::byte const* inputs) {
        vector const scale = V::multiplied(d, V::all(inputs + byte_block_scale));
        sum = V::add(sum, V::to_floats(dot_of(w, inputs)), scale);
        if constexpr (has_least) sum = V::add(sum, m, V::all(inputs + byte_block_offset));
        return sum;
    }

private:
    static MULTIDRAFT_EXAMPLE_INLINE void read_weights(std::byte const* from, integers (&w)[operands]) {
        MULTIDRAFT_EXAMPLE_UNROLL
        for (std::size_t k = 0; k < words; from += 4 * panel) {
            integers const stored = V::load(from);
            if constexpr (bits == 4) {
                w[k++] = V::low_nibbles(stored);
                w[k++] = V::high_nibbles(stored);
            } else if constexpr (in_nibbles) {
                w[k] = V::low_nibbles(stored);
                w[words + k++] = V::high_nibbles(stored);
            } else {
                w[k++] = stored;
            }
        }
    }

    /// The sums of products of 16 bits, of eight words from `first` on.
    static MULTIDRAFT_EXAMPLE_INLINE integers pairs_of(integers const (&w)[operands], std::size_t first,
                                                       std::byte const* inputs) {
        integers sum = V::pairs(w[first], V::broadcast(inputs));
        MULTIDRAFT_EXAMPLE_UNROLL
        for (std::size_t k = 1; k < words; ++k)
            sum = V::add16(sum, V::pairs(w[first + k], V::broadcast(inputs + 4 * k)));
        return sum;
    }
    /// The sums of the products of integers. Without m they are differences from the least: what that takes from the
    /// sum is stored with the inputs.
    static MULTIDRAFT_EXAMPLE_INLINE integers dot_of(integers const (&w)[operands], std::byte const* inputs) {
        if constexpr (V::has_dot) {
            integers even = has_least ? V::no_integers() : V::broadcast(inputs + byte_block_offset);
            integers odd = V::no_integers();
            MULTIDRAFT_EXAMPLE_UNROLL
            for (std::size_t k = 0; k < words; k += 2) {
                even = V::dot(even, w[k], V::broadcast(inputs + 4 * k));
                odd = V::dot(odd, w[k + 1], V::broadcast(inputs + 4 * k + 4));
            }
            return V::add32(even, odd);
        } else {
            integers sum = V::widened(pairs_of(w, 0, inputs), 1);
            if constexpr (in_nibbles) sum = V::add32(sum, V::widened(pairs_of(w, words, inputs), 16));
            if constexpr (!has_least) sum = V::add32(sum, V::broadcast(inputs + byte_block_offset));
            return sum;
        }
    }
};

}  // namespace
}  // namespace multidraft::examples::product
