// Addressed uniforms: fixed values, one counter an address, the range and the spread.
#include "multidraft/random/source.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <tuple>

namespace address_test {
namespace {

using multidraft::address;
using multidraft::addressed_uniforms;
using multidraft::philox_block;
using multidraft::purpose;

// Recorded texts depend on these numbers: a change here changes every text.
TEST(addressed_uniforms, give_the_golden_values) {
    addressed_uniforms const draws(0x0123456789abcdefU, 42);
    address const at{.position = 1000, .node = 17, .purpose = purpose::residual, .index = 5};
    EXPECT_EQ(draws.counter(at), (philox_block{{5U, 0x03000011U, 1000U, 42U}}));
    EXPECT_EQ(draws.words(at), multidraft::philox4x32({{5U, 0x03000011U, 1000U, 42U}}, {{0x89abcdefU, 0x01234567U}}));
    EXPECT_EQ(draws.words(at), (philox_block{{0xf34b1a55U, 0xd4e6d4a5U, 0x82aabd9dU, 0xe77d26e1U}}));
    EXPECT_EQ(draws.uniform<float>(at), 0x1.e69634p-1F);
    EXPECT_EQ(draws.uniform<double>(at), 0x1.e69634aba9cdap-1);
    EXPECT_EQ(addressed_uniforms(1).word({}), 0xe3e80670U);
    EXPECT_EQ(addressed_uniforms().word({}), 0x6627e8d5U);  // the known answer of Philox for zeros
}

TEST(addressed_uniforms, keep_the_numbers_of_the_purposes) {
    EXPECT_EQ(static_cast<int>(purpose::draft), 0);
    EXPECT_EQ(static_cast<int>(purpose::acceptance), 1);
    EXPECT_EQ(static_cast<int>(purpose::rank), 2);
    EXPECT_EQ(static_cast<int>(purpose::residual), 3);
    EXPECT_EQ(static_cast<int>(purpose::naive), 4);
    EXPECT_EQ(static_cast<int>(purpose::gumbel), 5);
    EXPECT_EQ(static_cast<int>(purpose::path), 6);
    EXPECT_EQ(static_cast<int>(purpose::shape), 7);
    EXPECT_EQ(static_cast<int>(purpose::target), 8);
    EXPECT_EQ(static_cast<int>(purpose::test), 9);
}

TEST(addressed_uniforms, give_every_address_a_counter_of_its_own) {
    std::set<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>> seen;
    int count = 0;
    for (std::uint32_t const request : {0U, 1U, 0xffffffffU}) {
        addressed_uniforms const draws(3, request);
        for (std::int32_t const position : {0, 1, 2, 255, 1 << 24, 0x7fffffff}) {
            for (std::int32_t const node : {0, 1, 2, 255, 256, (1 << 24) - 1}) {
                for (int kind = 0; kind < 10; ++kind) {
                    for (std::int32_t const index : {0, 1, 2, 1 << 24, 0x7fffffff}) {
                        philox_block const c = draws.counter({position, node, static_cast<purpose>(kind), index});
                        seen.insert({c.word[0], c.word[1], c.word[2], c.word[3]});
                        ++count;
                    }
                }
            }
        }
    }
    EXPECT_EQ(seen.size(), static_cast<std::size_t>(count));
}

TEST(addressed_uniforms, depend_on_both_halves_of_the_seed) {
    address const at{.position = 3};
    EXPECT_NE(addressed_uniforms(1).words(at), addressed_uniforms(2).words(at));
    EXPECT_NE(addressed_uniforms(1).words(at), addressed_uniforms(1 + (std::uint64_t{1} << 32)).words(at));
}

TEST(addressed_uniforms, are_in_range_and_the_float_is_the_double_cut_short) {
    addressed_uniforms const draws(99);
    double sum = 0.0;
    int const n = 100000;
    for (int i = 0; i < n; ++i) {
        address const at{.position = i / 1000, .node = i % 10, .purpose = purpose::test, .index = i / 10 % 100};
        float const single = draws.uniform<float>(at);
        double const wide = draws.uniform<double>(at);
        ASSERT_GE(single, 0.0F);
        ASSERT_LT(single, 1.0F);
        ASSERT_EQ(static_cast<double>(single), static_cast<double>(static_cast<int>(wide * 0x1p24)) * 0x1p-24);
        sum += wide;
    }
    EXPECT_NEAR(sum / n, 0.5, 5 * 0.2887 / 316.2);  // five standard errors; the seed is fixed
}

TEST(addressed_uniforms, reach_both_ends) {
    static_assert((0xffffffffU >> 8) * 0x1p-24 < 1.0);
    // A value, usable in constant expressions.
    static_assert(addressed_uniforms(1).uniform<double>({}) < 1.0);
    static_assert(addressed_uniforms(1).uniform<float>({}) < 1.0F);
}

}  // namespace
}  // namespace address_test
