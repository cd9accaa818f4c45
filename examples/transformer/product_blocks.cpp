// Weights that stay in GGML's blocks, as the kernels of products read them.
#include <array>
#include <cstdint>
#include <cstring>

#include "transformer/product.hpp"

namespace multidraft::examples::product {
namespace {

using integers = std::array<std::uint8_t, block_inputs>;

/// The integers of a block in a GGUF file, without a sign.
integers integers_of(weight_type type, std::byte const* from) {
    integers all{};
    for (std::size_t i = 0; i < all.size(); ++i) {
        if (type == weight_type::q8_0) {
            all[i] = static_cast<std::uint8_t>(std::to_integer<unsigned>(from[i]) ^ 0x80U);  // of -128 .. 127
        } else {
            // The low halves of the bytes are the first 16.
            auto const both = std::to_integer<unsigned>(from[i % 16]);
            all[i] = static_cast<std::uint8_t>(i < 16 ? both & 15U : both >> 4U);
        }
    }
    return all;
}

}  // namespace

void store_blocks(kernel const& k, std::span<std::byte const* const> rows, std::int32_t inputs, std::byte* to) {
    auto const scale_bytes = static_cast<std::size_t>(panel_scale_bytes(k.weights));
    auto const weight_bytes = static_cast<std::size_t>(panel_weight_bytes(k.weights)) * block_inputs;
    std::size_t const row_scales = scale_bytes / panel;
    std::size_t const row_block = row_scales + weight_bytes / panel;
    std::size_t const bits = weight_bytes / panel * 8 / block_inputs;
    std::size_t const in_word = 32 / bits;
    // The input whose integer lies at place i of a word.
    auto const input_at = [&](std::size_t i) {
        if (k.inputs != input_form::bytes) return i ^ 1U;
        return bits == 8 ? i : i / 2 + 4 * (i % 2);
    };
    auto const blocks = static_cast<std::size_t>(inputs / block_inputs);
    for (std::size_t b = 0; b < blocks; ++b, to += scale_bytes + weight_bytes) {
        std::memset(to, 0, scale_bytes + weight_bytes);
        for (std::size_t n = 0; n < rows.size(); ++n) {
            std::byte const* const from = rows[n] + b * row_block;
            for (std::size_t s = 0; s < row_scales; s += 2) std::memcpy(to + s * panel + 2 * n, from + s, 2);
            integers const q = integers_of(k.weights, from + row_scales);
            for (std::size_t w = 0; w < block_inputs / in_word; ++w) {
                std::uint32_t word = 0;
                for (std::size_t i = 0; i < in_word; ++i)
                    word |= static_cast<std::uint32_t>(q[w * in_word + input_at(i)]) << i * bits;
                std::memcpy(to + scale_bytes + w * 64 + 4 * n, &word, sizeof word);
            }
        }
    }
}

}  // namespace multidraft::examples::product
