// Products of a few rows with a large matrix in its file's layout: each weight is read once from memory, and a row's
// sums do not depend on the number of rows.
//
// A sum over K inputs consists of 16 partial sums. For each 32 inputs in order, partial sum l adds first w[2 l + 1] x[2
// l + 1], then w[2 l] x[2 l], each by a fused multiply-add whose denormal operands and results are 0. At the end
// partial sums l and l + 8 are added, then l and l + 4, l + 2, l + 1. This matches AVX512_BF16's dot product of pairs,
// so plain multiply-adds on other CPUs give the same bits. Weights of 8 bits are integers in such a sum, and the sum is
// multiplied by the scale of its row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "transformer/product_kernel.hpp"

namespace multidraft::examples::product {

/// The kernels that this CPU can run, in order of preference. With MULTIDRAFT_EXAMPLE_ISA=avx512, =avx2 or =portable in
/// the environment, without those that need more.
[[nodiscard]] std::vector<kernel const*> const& kernels();

/// The kernel for weights of a type. With inputs that are `rounded` to bfloat16 kernels of both forms have the same
/// bits, and the first call measures which one is faster.
[[nodiscard]] kernel const& kernel_for(weight_type weights, bool rounded);

/// Rows that are packed together at most in products of that many inputs.
[[nodiscard]] std::int32_t rows_together(kernel const& k, std::int32_t inputs) noexcept;

/// The bytes of packed inputs.
[[nodiscard]] std::size_t packed_bytes(kernel const& k, std::int32_t inputs, std::int32_t rows) noexcept;

/// Lays out rows of inputs, `stride` numbers apart, for a kernel: groups of rows as even as possible, in each step by
/// step, in each step row by row. Rounds to bfloat16 if asked to, or if the form is `pairs`.
void pack(kernel const& k, float const* rows, std::size_t stride, std::int32_t count, std::int32_t inputs,
          std::int32_t together, bool rounded, std::byte* to);

/// Stores a row of weights in 8 bits for a kernel, padded with zeros to whole steps: the nearest multiples of the scale
/// that makes the largest 127. Returns the scale.
[[nodiscard]] float store_row(kernel const& k, float const* row, std::int32_t inputs, std::byte* to);

}  // namespace multidraft::examples::product
