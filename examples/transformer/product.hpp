// Products of a few rows with a large matrix: each weight is read once from memory, and a row's sums do not depend on
// the number of rows.
//
// A sum over K inputs adds, for each two inputs in order, first w[2 k + 1] x[2 k + 1], then w[2 k] x[2 k], each by a
// fused multiply-add whose denormal operands and results are 0. This matches AVX512_BF16's dot product of pairs, so
// plain multiply-adds on other CPUs give the same bits. Weights of 8 bits are integers in such a sum, and the sum is
// multiplied by the scale of its output. Weights in GGML's blocks become floats in registers, once for all rows that
// are taken together, exactly as `tensor_view::read` makes them: a sum has the bits of that over the floats.
//
// In tiles (AMX) the products of 32 inputs are summed first, those with even and those with odd inputs apart, in order,
// from 0 and by fused multiply-adds; then the two sums are added, and theirs to the sum.
//
// With inputs in 8 bits, blocks of 32 weights d q + m meet blocks of 32 inputs e y: e is the largest magnitude / 127, y
// the nearest integers to x / e, ties to even. The sum over q y is of integers and exact; as a float s it is added to
// the sum as s (d e), rounded after d e and after the sum, then m (e sum(y)) likewise. llama.cpp multiplies such
// weights by such inputs, too. What a further row takes is a quarter to a half of that in floats.
//
// Weights are stored in panels of 16 outputs, input by input: the sums of a panel are the lanes of a vector, and a
// panel is read in one stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "transformer/product_kernel.hpp"

namespace multidraft::examples::product {

/// The kernels that this CPU can run, in order of preference: of the instruction sets up to `widest_instructions()`.
[[nodiscard]] std::vector<kernel const*> const& kernels();

/// The kernel for weights of a type. With inputs that are `rounded` to bfloat16 kernels of floats and of pairs have the
/// same bits, and the first call measures which one is faster; one of tiles is preferred to both. With weights in
/// blocks they are `rounded` to 8 bits.
[[nodiscard]] kernel const& kernel_for(weight_type weights, bool rounded);

/// The steps of a row of so many inputs.
[[nodiscard]] constexpr std::int32_t steps(kernel const& k, std::int32_t inputs) noexcept {
    return (inputs + k.step() - 1) / k.step();
}

/// The bytes of a panel of weights with so many inputs.
[[nodiscard]] constexpr std::size_t panel_bytes(kernel const& k, std::int32_t inputs) noexcept {
    return static_cast<std::size_t>(steps(k, inputs)) * static_cast<std::size_t>(k.step_bytes());
}

/// Stores a panel for a kernel: `count` rows of weights, `inputs` numbers each, one after the other; what lacks of a
/// panel and of a step is 0. Rounds to bfloat16 where the kernel multiplies it. In 8 bits, a weight becomes the nearest
/// multiple of the scale that makes the largest of its row 127, and the scales are written to `scales`.
void store_panel(kernel const& k, float const* rows, std::int32_t count, std::int32_t inputs, std::byte* to,
                 float* scales);

/// Stores a panel for a kernel of weights in blocks: `count` rows of `inputs` weights, a multiple of 32, of which
/// `rows[n]` are the bytes in a GGUF file. What lacks of a panel is 0.
///
/// A block is, for the outputs in order, the scales, d and then m, and then words of 32 bits: the integers of 8 inputs
/// (4 in 8 bits) of an output, from the lowest bits on, the second of each two inputs before the first. Integers with a
/// sign are stored as their differences from the least. For inputs in 8 bits the bytes of a word are 4 inputs in order;
/// in 4 bits their low halves, and the high halves are the next 4.
void store_blocks(kernel const& k, std::span<std::byte const* const> rows, std::int32_t inputs, std::byte* to);

/// The bytes of packed inputs.
[[nodiscard]] constexpr std::size_t packed_bytes(kernel const& k, std::int32_t inputs, std::int32_t rows) noexcept {
    return static_cast<std::size_t>(steps(k, inputs)) * static_cast<std::size_t>(rows) *
           static_cast<std::size_t>(k.input_bytes());
}

/// The groups that a kernel takes so many rows in.
[[nodiscard]] constexpr row_groups groups_of(kernel const& k, std::int32_t rows) noexcept {
    return {rows, k.together, k.of_many};
}

/// Lays out rows of inputs, `stride` numbers apart, for a kernel: groups of rows as even as possible, in each step by
/// step, in each step row by row. Rounds to bfloat16 if asked to, or if the form is `pairs` or `tiles`; to 8 bits if it
/// is `bytes`.
void pack(kernel const& k, float const* rows, std::size_t stride, std::int32_t count, std::int32_t inputs, bool rounded,
          std::byte* to);
/// The same for the groups from `first` to `last` alone.
void pack_groups(kernel const& k, float const* rows, std::size_t stride, std::int32_t count, std::int32_t inputs,
                 bool rounded, std::byte* to, std::int32_t first, std::int32_t last);

}  // namespace multidraft::examples::product
