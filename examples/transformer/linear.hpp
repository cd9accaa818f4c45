// The matrices of a model and their multiplication.
//
// By product.hpp: a call with few rows takes the time of reading the weights, and further rows what their multiply-adds
// take, which is little where the CPU multiplies bfloat16 by pairs (AVX512_BF16) or by tiles of 16 rows (AMX). oneDNN
// (see matmul.hpp) is what bench/transformer_bench.cpp compares with, and multiplies where the compiler has no tiles
// but the CPU has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "transformer/safetensors.hpp"
#include "transformer/team.hpp"

namespace multidraft::examples {

/// The numbers that the matrix products multiply; everything else is float.
enum class precision {
    automatic,  ///< for a file in blocks stored8, or stored where the CPU has no instructions for 8 bits; else bf16
                ///< where it multiplies that natively (AVX512_BF16, AMX), elsewhere f32
    bf16,       ///< inputs and weights are rounded to bfloat16
    f32,        ///< weights as the file has them, inputs in float
    stored,     ///< the same sums, bit for bit, of weights that stay in the blocks of a GGUF file
    /// The same blocks times inputs rounded to blocks of 8 bits, as llama.cpp multiplies them, and bfloat16 times
    /// inputs rounded to it: another function, whose further rows take a fraction of the time.
    stored8,
    q8_0,  ///< the same, and weights that are in no blocks are rounded to blocks of 8 bits: half the bytes of bfloat16
    int8,  ///< weights of 8 bits with a scale per row, inputs rounded to bfloat16: another function, half the bytes
};

/// Whether weights in blocks are multiplied by inputs rounded to blocks of 8 bits.
[[nodiscard]] constexpr bool rounds_to_bytes(precision numbers) noexcept {
    return numbers == precision::stored8 || numbers == precision::q8_0;
}

/// Whether weights stay in the blocks of a GGUF file.
[[nodiscard]] constexpr bool keeps_blocks(precision numbers) noexcept {
    return numbers == precision::stored || rounds_to_bytes(numbers);
}

/// What a drafter multiplies: what was chosen for it, else the target's; and blocks of 8 bits beside a target whose
/// inputs are rounded to 8 bits. A draft that is a little less exact never changes the law, and is read in less time.
[[nodiscard]] constexpr precision numbers_of_drafter(precision chosen, precision of_target) noexcept {
    if (chosen != precision::automatic) return chosen;
    return of_target == precision::stored8 ? precision::q8_0 : of_target;
}

/// The implementation of products.
enum class multiplier {
    automatic,  ///< as said above
    ours,       ///< product.hpp
    onednn,     ///< oneDNN; bf16 and f32 only
};

/// Whether the CPU multiplies bf16 matrices by tiles of 16 rows (AMX): then 16 rows cost little more than one, and
/// trees of candidates are nearly free. Elsewhere every row costs its multiplications.
[[nodiscard]] bool multiplies_by_tiles();

/// Whether the CPU has instructions that multiply bfloat16.
[[nodiscard]] bool multiplies_bfloat16();

/// Whether there are kernels of vectors of bytes for this CPU.
[[nodiscard]] bool multiplies_bytes();

/// Several matrices with the same inputs, their outputs one after the other: output = inputs * transposed matrix.
class linear {
public:
    linear() = default;
    linear(linear const&) = delete;
    linear& operator=(linear const&) = delete;
    virtual ~linear() = default;

    [[nodiscard]] virtual std::int32_t inputs() const noexcept = 0;
    [[nodiscard]] virtual std::int32_t outputs() const noexcept = 0;
    /// The bytes of the weights, which a product reads once.
    [[nodiscard]] virtual std::size_t bytes() const noexcept = 0;
    /// The bytes of workspace that `multiply` needs for that many rows.
    [[nodiscard]] virtual std::size_t workspace_bytes(std::int32_t rows) const = 0;
    [[nodiscard]] virtual std::string description() const = 0;

    /// Multiplies `count` rows of inputs, one after the other, in up to `active` threads. A row's results have the same
    /// bits whatever the other rows, their number and the threads. `workspace` is aligned for a cache line.
    virtual void multiply(team& threads, int active, float const* rows, std::int32_t count, float* output,
                          std::byte* workspace) const = 0;
};

class weight_memory;

/// The bytes of so many weights of a file's type in a precision, about.
[[nodiscard]] std::size_t loaded_bytes(std::size_t weights, tensor_type type, precision numbers) noexcept;

/// Makes the matrices of a model.
class linear_maker {
public:
    /// One of the matrices: a row of `inputs` numbers for each output.
    struct part {
        tensor_view const* tensor;
        std::int32_t outputs;
    };

    /// `numbers` is not automatic; `model_bytes` are those of all the model's weights. Matrices in rows of at most
    /// `most_rows` at a time. Throws `std::runtime_error` where oneDNN cannot multiply bf16.
    linear_maker(precision numbers, multiplier by, std::size_t model_bytes, std::int32_t most_rows);
    ~linear_maker();

    /// Copies the weights as the kernels read them, in the threads of the team.
    [[nodiscard]] std::unique_ptr<linear> make(std::vector<part> const& parts, std::int32_t inputs, team& threads);

private:
    precision numbers_;
    struct library;
    std::unique_ptr<weight_memory> memory_;
    std::unique_ptr<library> library_{};  ///< null if product.hpp is used
};

}  // namespace multidraft::examples
