#include "transformer/block_rounding.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "transformer/kernels.hpp"
#include "transformer/tensor_view.hpp"

namespace multidraft::examples {
namespace {

constexpr std::size_t block = block_numbers(tensor_type::q8_0);

void round_block(std::span<float const> from, std::byte* to) {
    float largest = 0;
    for (float const x : from) largest = std::max(largest, std::abs(x));
    float const wanted = largest / 127;
    kernels::half stored{};
    kernels::round(&wanted, 1, &stored);
    std::memcpy(to, &stored, sizeof stored);
    float const scale = kernels::to_float(stored);
    for (std::size_t i = 0; i < block; ++i) {
        // The stored scale may be a little less than was wanted, and is 0 for numbers that are nearly so.
        float const multiple = scale > 0 ? std::clamp(std::nearbyint(from[i] / scale), -127.0F, 127.0F) : 0.0F;
        to[sizeof stored + i] = static_cast<std::byte>(static_cast<std::int8_t>(multiple));
    }
}

}  // namespace

void round_to_blocks(std::span<float const> numbers, std::byte* to) {
    for (; !numbers.empty(); numbers = numbers.subspan(block), to += block_bytes(tensor_type::q8_0)) {
        auto const here = numbers.first(block);
        if (std::ranges::all_of(here, [](float x) { return std::isfinite(x); })) {
            round_block(here, to);
        } else {
            std::memset(to, 0, block_bytes(tensor_type::q8_0));
            constexpr std::uint16_t not_a_number = 0x7e00;
            std::memcpy(to, &not_a_number, sizeof not_a_number);
        }
    }
}

}  // namespace multidraft::examples
