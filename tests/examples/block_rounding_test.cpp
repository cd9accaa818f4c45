// Numbers rounded to blocks of 8 bits: the nearest multiples of a scale, whatever the numbers are.
#include "transformer/block_rounding.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "transformer/tensor_view.hpp"

namespace block_rounding_test {
namespace {

using multidraft::examples::block_bytes;
using multidraft::examples::round_to_blocks;
using multidraft::examples::tensor_type;
using multidraft::examples::tensor_view;

std::vector<float> rounded(std::vector<float> const& numbers) {
    std::vector<std::byte> bytes(numbers.size() / 32 * block_bytes(tensor_type::q8_0) + 1, std::byte{0x55});
    round_to_blocks(numbers, bytes.data());
    EXPECT_EQ(bytes.back(), std::byte{0x55}) << "nothing beyond the blocks";
    bytes.pop_back();
    std::vector<float> found(numbers.size());
    tensor_view{tensor_type::q8_0, {1, static_cast<std::int64_t>(numbers.size())}, bytes}.read(0, found);
    return found;
}

TEST(round_to_blocks, takes_the_nearest_multiples) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (float const size : {1e-3F, 0.02F, 1.0F, 300.0F}) {
        std::vector<float> numbers(10 * 32);
        for (float& x : numbers) x = size * normal(random);
        auto const found = rounded(numbers);
        for (std::size_t b = 0; b < numbers.size(); b += 32) {
            float largest = 0;
            for (std::size_t i = b; i < b + 32; ++i) largest = std::max(largest, std::abs(numbers[i]));
            // Half a multiple, and for the largest numbers what the scale's 11 bits leave.
            float const bound = largest / 127 * 0.5F + largest / 2048;
            for (std::size_t i = b; i < b + 32; ++i) ASSERT_NEAR(found[i], numbers[i], bound) << size << ", " << i;
        }
    }
}

TEST(round_to_blocks, keeps_what_is_a_multiple) {
    std::vector<float> numbers(32);
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = 0.25F * (static_cast<float>(i) * 8 - 121);
    EXPECT_EQ(*std::ranges::max_element(numbers), 0.25F * 127);
    EXPECT_EQ(rounded(numbers), numbers);
    EXPECT_EQ(rounded(std::vector<float>(64, 0.0F)), std::vector<float>(64, 0.0F));
}

TEST(round_to_blocks, has_a_number_for_every_number) {
    constexpr float most = std::numeric_limits<float>::max();
    // Scales beyond those of halves.
    std::vector<float> numbers(96, 0.0F);
    numbers[0] = most;
    numbers[33] = -most;
    numbers[64] = 1e-30F;
    auto const found = rounded(numbers);
    EXPECT_EQ(found[0], 127 * 65504.0F);
    EXPECT_EQ(found[33], -127 * 65504.0F);
    for (std::size_t i = 64; i < 96; ++i) EXPECT_EQ(found[i], 0.0F);
    // One that is none is seen, in its block alone.
    for (float const none :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), -most * 2}) {
        std::vector<float> damaged(64, 1.0F);
        damaged[40] = none;
        auto const seen = rounded(damaged);
        for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(std::isnan(seen[i]), i >= 32) << i;
    }
}

}  // namespace
}  // namespace block_rounding_test
