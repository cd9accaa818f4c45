#include "transformer/tensor_view.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>

#include "transformer/kernels.hpp"

namespace multidraft::examples {
namespace {

constexpr std::size_t block = 32;

std::uint16_t bits_at(std::byte const* from) noexcept {
    std::uint16_t bits = 0;
    std::memcpy(&bits, from, 2);
    return bits;
}

kernels::half half_at(std::byte const* from) noexcept { return static_cast<kernels::half>(bits_at(from)); }

/// The numbers of a block. The products of a scale of 11 bits are exact. A zero has no sign.
void read_block(tensor_type type, std::byte const* from, float* out) noexcept {
    float const scale = kernels::to_float(half_at(from));
    if (type == tensor_type::q8_0) {
        for (std::size_t i = 0; i < block; ++i)
            out[i] = scale * static_cast<float>(static_cast<std::int8_t>(from[2 + i])) + 0.0F;
        return;
    }
    // The low halves of the bytes are the first 16 numbers.
    bool const with_least = type == tensor_type::q4_1;
    float const least = with_least ? kernels::to_float(half_at(from + 2)) : 0.0F;
    int const zero = with_least ? 0 : 8;
    std::byte const* const bytes = from + (with_least ? 4 : 2);
    for (std::size_t i = 0; i < block / 2; ++i) {
        int const both = std::to_integer<int>(bytes[i]);
        out[i] = scale * static_cast<float>((both & 15) - zero) + least;
        out[i + block / 2] = scale * static_cast<float>((both >> 4) - zero) + least;
    }
}

}  // namespace

void tensor_view::read_stored(std::size_t first, std::span<float> out) const {
    if (block_numbers(type) == block) {
        std::array<float, block> numbers{};
        while (!out.empty()) {
            std::byte const* const from = bytes.data() + first / block * block_bytes(type);
            std::size_t const at = first % block;
            std::size_t const count = std::min(block - at, out.size());
            if (count == block) {
                read_block(type, from, out.data());
            } else {
                read_block(type, from, numbers.data());
                std::copy_n(numbers.data() + at, count, out.data());
            }
            first += count;
            out = out.subspan(count);
        }
        return;
    }
    std::byte const* const from = bytes.data() + first * size_of(type);
    if (type == tensor_type::f32) {
        if (!out.empty()) std::memcpy(out.data(), from, out.size_bytes());
    } else if (type == tensor_type::bf16) {
        for (std::size_t i = 0; i < out.size(); ++i)
            out[i] = kernels::to_float(static_cast<kernels::bfloat16>(bits_at(from + 2 * i)));
    } else {
        for (std::size_t i = 0; i < out.size(); ++i) out[i] = kernels::to_float(half_at(from + 2 * i));
    }
}

void tensor_view::read(std::size_t first, std::span<float> out) const {
    std::size_t const count = bytes.size() / block_bytes(type) * block_numbers(type);
    if (first > count || out.size() > count - first) {
        throw std::out_of_range("tensor_view::read: beyond the end of the tensor");
    }
    if (interleaved == 0) {
        read_stored(first, out);
        return;
    }
    auto const width = static_cast<std::size_t>(shape.back());
    while (!out.empty()) {
        std::size_t const at = first % width;
        std::size_t const here = std::min(width - at, out.size());
        read_stored(place_of(first / width) * width + at, out.first(here));
        first += here;
        out = out.subspan(here);
    }
}

std::size_t tensor_view::place_of(std::size_t row) const noexcept {
    if (interleaved == 0) return row;
    auto const rows = static_cast<std::size_t>(interleaved);
    std::size_t const in_head = row % rows;
    return row - in_head + 2 * (in_head % (rows / 2)) + in_head / (rows / 2);
}

std::span<std::byte const> tensor_view::stored_row(std::size_t row) const {
    std::size_t const row_bytes = static_cast<std::size_t>(shape.back()) / block_numbers(type) * block_bytes(type);
    if (row >= bytes.size() / row_bytes)
        throw std::out_of_range("tensor_view::stored_row: beyond the end of the tensor");
    return bytes.subspan(place_of(row) * row_bytes, row_bytes);
}

}  // namespace multidraft::examples
