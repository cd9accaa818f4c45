// A kernel of products: numbers and pointers only, for files that are each compiled for one instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

namespace multidraft::examples::product {

/// How a weight is stored.
enum class weight_type { bf16, f32, int8 };

/// How the inputs of a kernel are laid out: see `pack`.
enum class input_form {
    pairs,  ///< bfloat16, in order
    split,  ///< float, of a step all those at odd places, then all those at even ones
};

/// Rows that a kernel multiplies together at most, and outputs that it computes before it turns to other rows.
inline constexpr std::int32_t most_rows = 8;
inline constexpr std::int32_t panel = 24;

/// One matrix, and the inputs and outputs of a product with it.
struct task {
    std::byte const* weights;      ///< a row for each output
    std::size_t weight_row_bytes;  ///< from one row to the next
    float const* scales;           ///< of the rows, for 8 bits
    std::int32_t first, last;      ///< the outputs to compute
    std::int32_t steps;            ///< of a row: its numbers / `kernel::step`
    std::byte const* inputs;       ///< packed for the kernel
    std::int32_t rows;
    std::int32_t together;   ///< rows that are packed together at most
    float* output;           ///< of output 0 of the first row
    std::size_t output_row;  ///< numbers from one row of outputs to the next
};

/// A way to multiply.
struct kernel {
    char const* name;
    weight_type weights;
    input_form inputs;
    std::int32_t step;      ///< numbers taken together; rows are padded with zeros to a multiple
    std::int32_t together;  ///< rows taken together at most
    void (*run)(task const&);
    /// For 8 bits: stores a step of weights in [-127, 127] as the kernel reads them.
    void (*store)(std::int8_t const* weights, std::byte* to);

    /// The bytes of a step of weights and of inputs.
    [[nodiscard]] constexpr std::int32_t weight_bytes() const noexcept {
        return step * (weights == weight_type::f32 ? 4 : weights == weight_type::bf16 ? 2 : 1);
    }
    [[nodiscard]] constexpr std::int32_t input_bytes() const noexcept {
        return step * (inputs == input_form::pairs ? 2 : 4);
    }
};

// The kernels by the instructions that they need: none where the compiler has not got them.
struct kernel_list {
    kernel const* first;
    std::size_t count;
};
extern kernel_list const avx512_bf16_kernels;
extern kernel_list const avx512_kernels;
extern kernel_list const avx2_kernels;
extern kernel_list const portable_kernels;

}  // namespace multidraft::examples::product
