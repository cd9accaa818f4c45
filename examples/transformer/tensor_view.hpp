// The numbers of a tensor as a file stores them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace multidraft::examples {

/// How a tensor's numbers are stored. Those of GGML's block types share a scale by 32.
enum class tensor_type {
    f32,
    f16,
    bf16,
    q8_0,  ///< 8 bits, x = d q
    q4_0,  ///< 4 bits, x = d (q - 8)
    q4_1,  ///< 4 bits, x = d q + m
};

/// The numbers that are stored together.
[[nodiscard]] constexpr std::size_t block_numbers(tensor_type type) noexcept {
    return type == tensor_type::q8_0 || type == tensor_type::q4_0 || type == tensor_type::q4_1 ? 32 : 1;
}

/// The bytes of those.
[[nodiscard]] constexpr std::size_t block_bytes(tensor_type type) noexcept {
    switch (type) {
        case tensor_type::f32:
            return 4;
        case tensor_type::f16:
        case tensor_type::bf16:
            return 2;
        case tensor_type::q8_0:
            return 34;
        case tensor_type::q4_0:
            return 18;
        case tensor_type::q4_1:
            return 20;
    }
    return 0;
}

/// The bytes of one number, of a type without blocks.
[[nodiscard]] constexpr std::size_t size_of(tensor_type type) noexcept { return type == tensor_type::f32 ? 4 : 2; }

/// One tensor inside a mapped file; valid while that is open.
struct tensor_view {
    tensor_type type = tensor_type::f32;
    std::vector<std::int64_t> shape;
    std::span<std::byte const> bytes;  ///< row-major, little-endian, of any alignment
    /// Not 0: the file has the rows of each head, of so many, in the order of interleaved rotary pairs, first, middle,
    /// second, middle + 1, ..; `read` gives them in the order of the halves.
    std::int64_t interleaved = 0;

    /// Numbers `first .. first + out.size()` of the tensor, as floats. Exact.
    void read(std::size_t first, std::span<float> out) const;

    /// The bytes of a row of a matrix, of whole blocks, as the file has them: those of the numbers that `read` gives.
    [[nodiscard]] std::span<std::byte const> stored_row(std::size_t row) const;

private:
    void read_stored(std::size_t first, std::span<float> out) const;
    /// Which row of the file is this one.
    [[nodiscard]] std::size_t place_of(std::size_t row) const noexcept;
};

}  // namespace multidraft::examples
