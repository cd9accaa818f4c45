// A kernel of products: numbers and pointers only, for files that are each compiled for one instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

namespace multidraft::examples::product {

/// Outputs whose weights are stored together.
inline constexpr std::int32_t panel = 16;

/// How a weight is stored.
enum class weight_type {
    bf16,
    f32,
    int8,
    q8_0,  ///< in GGML's blocks of 32 inputs: see `tensor_type`
    q4_0,
    q4_1,
};

/// Inputs of a block.
inline constexpr std::int32_t block_inputs = 32;

/// Whether weights of a type are in blocks.
[[nodiscard]] constexpr bool in_blocks(weight_type type) noexcept {
    return type == weight_type::q8_0 || type == weight_type::q4_0 || type == weight_type::q4_1;
}

/// The bytes of 16 weights of a type, one for each output of a panel; of types in blocks without their scales.
[[nodiscard]] constexpr std::int32_t panel_weight_bytes(weight_type type) noexcept {
    switch (type) {
        case weight_type::f32:
            return 64;
        case weight_type::bf16:
            return 32;
        case weight_type::int8:
        case weight_type::q8_0:
            return 16;
        case weight_type::q4_0:
        case weight_type::q4_1:
            return 8;
    }
    return 0;
}

/// The bytes of the scales of a block, halves, for all outputs of a panel: d, for `q4_1` also m.
[[nodiscard]] constexpr std::int32_t panel_scale_bytes(weight_type type) noexcept {
    return !in_blocks(type) ? 0 : type == weight_type::q4_1 ? 64 : 32;
}

/// How a kernel reads inputs.
enum class input_form {
    pairs,   ///< bfloat16, multiplied by two at a time
    tiles,   ///< the same, by 32 at a time: sums have an order of their own
    floats,  ///< float
    bytes,   ///< blocks of 32 integers of 8 bits with a scale: for weights in blocks
};

/// A block of inputs in 8 bits: the integers; the scale, a float; and what the least weight adds. That is the scale
/// times the sum of the integers, a float, for `q4_1`; for other types an integer, the sum times the least integer.
inline constexpr std::ptrdiff_t byte_block_scale = 32;
inline constexpr std::ptrdiff_t byte_block_offset = 36;
inline constexpr std::ptrdiff_t byte_block_bytes = 40;

/// One matrix, and the inputs and outputs of a product with it.
struct task {
    std::byte const* weights;  ///< in panels: see `store`
    float const* scales;       ///< of the outputs, for 8 bits
    std::int32_t outputs;      ///< of the matrix
    std::int32_t first, last;  ///< the panels to compute
    std::int32_t steps;        ///< of a row: its numbers / `kernel::step`, rounded up
    std::byte const* inputs;   ///< as `pack` lays them out for the kernel
    std::int32_t rows;
    float* output;           ///< of output 0 of the first row
    std::size_t output_row;  ///< numbers from one row of outputs to the next
};

/// Rows that are multiplied together.
struct row_groups {
    std::int32_t rows, count;

    /// As few groups as `together` allows, or of about `of_many` rows where these are more; all as even as possible.
    constexpr row_groups(std::int32_t all, std::int32_t together, std::int32_t of_many) noexcept
        : rows(all), count((all + together - 1) / together) {
        std::int32_t const smaller = (all + 1) / of_many;
        if (smaller > count) count = smaller;
    }
    [[nodiscard]] constexpr std::int32_t size(std::int32_t g) const noexcept {
        return rows / count + (g < rows % count ? 1 : 0);
    }
    /// Its first row.
    [[nodiscard]] constexpr std::int32_t begin(std::int32_t g) const noexcept {
        return rows / count * g + (g < rows % count ? g : rows % count);
    }
};

/// A way to multiply.
struct kernel {
    char const* name;
    weight_type weights;
    input_form inputs;
    std::int32_t together;  ///< rows taken together at most
    std::int32_t of_many;   ///< about as many in a call of many rows
    void (*run)(task const&);

    /// Inputs taken together. Rows are padded with zeros to a multiple.
    [[nodiscard]] constexpr std::int32_t step() const noexcept { return inputs == input_form::floats ? 16 : 32; }
    /// The bytes of a step of a row of inputs.
    [[nodiscard]] constexpr std::int32_t input_bytes() const noexcept {
        return inputs == input_form::bytes ? static_cast<std::int32_t>(byte_block_bytes) : 64;
    }
    /// The bytes of the weights of one step of a panel. Of weights in blocks two steps of floats are a block.
    [[nodiscard]] constexpr std::int32_t step_bytes() const noexcept {
        return step() * panel_weight_bytes(weights) + panel_scale_bytes(weights) * step() / block_inputs;
    }
};

// The kernels by the instructions that they need: none where the compiler has not got them.
struct kernel_list {
    kernel const* first;
    std::size_t count;
};
extern kernel_list const amx_kernels;
extern kernel_list const avx512_bf16_kernels;
extern kernel_list const avx512_vnni_kernels;
extern kernel_list const avx512_kernels;
extern kernel_list const avx2_kernels;
extern kernel_list const portable_kernels;

}  // namespace multidraft::examples::product
