// The published known answers of Random123 (tests/kat_vectors, philox4x32, 10 rounds), and the bijection.
#include "multidraft/random/philox.hpp"

#include <gtest/gtest.h>

#include <set>
#include <tuple>

namespace philox_test {
namespace {

using multidraft::philox4x32;
using multidraft::philox_block;

constexpr philox_block zeros = philox4x32({{0, 0, 0, 0}}, {{0, 0}});
constexpr philox_block ones =
    philox4x32({{0xffffffffU, 0xffffffffU, 0xffffffffU, 0xffffffffU}}, {{0xffffffffU, 0xffffffffU}});
constexpr philox_block pi =
    philox4x32({{0x243f6a88U, 0x85a308d3U, 0x13198a2eU, 0x03707344U}}, {{0xa4093822U, 0x299f31d0U}});

TEST(philox, gives_the_known_answers) {
    EXPECT_EQ(zeros, (philox_block{{0x6627e8d5U, 0xe169c58dU, 0xbc57ac4cU, 0x9b00dbd8U}}));
    EXPECT_EQ(ones, (philox_block{{0x408f276dU, 0x41c83b0eU, 0xa20bc7c6U, 0x6d5451fdU}}));
    EXPECT_EQ(pi, (philox_block{{0xd16cfe09U, 0x94fdccebU, 0x5001e420U, 0x24126ea1U}}));
}

TEST(philox, gives_them_at_run_time_too) {
    std::uint32_t volatile zero = 0;
    EXPECT_EQ(philox4x32({{zero, zero, zero, zero}}, {{zero, zero}}), zeros);
}

TEST(philox, gives_different_counters_different_blocks) {
    std::set<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>> seen;
    for (std::uint32_t place = 0; place < 4; ++place) {
        for (std::uint32_t i = 1; i <= 5000; ++i) {
            philox_block counter{};
            counter.word[place] = i;
            philox_block const out = philox4x32(counter, {{7, 9}});
            EXPECT_TRUE(seen.insert({out.word[0], out.word[1], out.word[2], out.word[3]}).second);
        }
    }
}

}  // namespace
}  // namespace philox_test
