// The loops between the example transformer's products against plain sums in double.
#include "transformer/kernels.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "examples/model_support.hpp"
#include "transformer/key_value_cache.hpp"

namespace kernels_test {
namespace {

using multidraft::testing::same_bits;

TEST(transformer_kernels, attention_sums_the_same_bits_wherever_entries_lie) {
    namespace k = multidraft::examples::kernels;
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (std::int32_t const dim : {2, 16, 24, 32, 64, 80, 128}) {
        for (std::int32_t const heads : {1, 2, 3, 4, 7}) {
            std::int32_t const capacity = 256;
            std::int32_t const padded = k::round_up(dim, k::lanes);
            auto const at = [&](std::int32_t entry, std::int32_t d) {
                return static_cast<std::size_t>((entry / k::lanes * dim + d) * k::lanes + entry % k::lanes);
            };
            std::vector<float> keys(static_cast<std::size_t>(capacity * dim));
            std::vector<float> values(static_cast<std::size_t>(capacity * padded));
            std::vector<float> scattered_keys(keys.size());
            std::vector<float> scattered_values(values.size());
            std::vector<float> queries(static_cast<std::size_t>(heads * dim));
            for (float& q : queries) q = normal(random);
            std::vector<k::run> runs;
            std::int32_t count = 0;
            for (std::int32_t next = 0; next + 12 < capacity;) {
                next += static_cast<std::int32_t>(random() % 5) + (runs.empty() ? 0 : 1);
                auto const length = static_cast<std::int32_t>(1 + random() % 6);
                runs.push_back({next, length});
                for (std::int32_t i = 0; i < length; ++i, ++count) {
                    for (std::int32_t d = 0; d < dim; ++d) {
                        keys[at(count, d)] = scattered_keys[at(next + i, d)] = normal(random);
                        values[static_cast<std::size_t>(count * padded + d)] =
                            scattered_values[static_cast<std::size_t>((next + i) * padded + d)] = normal(random);
                    }
                }
                next += length;
            }
            std::vector<float> scratch(k::attention_scratch(capacity, dim));
            std::vector<float> together(queries.size() + 1, -7.0F);
            std::vector<float> apart = together;
            k::run const one{0, count};
            float const scale = 0.3F;
            k::token_attention const contiguous{queries.data(), together.data(), &one, 1};
            k::token_attention const scattered{queries.data(), apart.data(), runs.data(), runs.size()};
            k::attend({keys.data(), values.data(), dim, scale}, {&contiguous, 1}, heads, scratch.data());
            k::attend({scattered_keys.data(), scattered_values.data(), dim, scale}, {&scattered, 1}, heads,
                      scratch.data());
            ASSERT_TRUE(same_bits(together, apart)) << dim << " " << heads;
            ASSERT_EQ(together.back(), -7.0F);
            for (std::int32_t h = 0; h < heads; ++h) {  // against plain sums in double
                std::vector<double> weight(static_cast<std::size_t>(count));
                double total = 0;
                for (std::int32_t e = 0; e < count; ++e) {
                    double score = 0;
                    for (std::int32_t d = 0; d < dim; ++d) {
                        score += double{queries[static_cast<std::size_t>(h * dim + d)]} * double{keys[at(e, d)]};
                    }
                    total += weight[static_cast<std::size_t>(e)] = std::exp(score * double{scale});
                }
                for (std::int32_t d = 0; d < dim; ++d) {
                    double expected = 0;
                    for (std::int32_t e = 0; e < count; ++e) {
                        expected += weight[static_cast<std::size_t>(e)] / total *
                                    double{values[static_cast<std::size_t>(e * padded + d)]};
                    }
                    ASSERT_NEAR(together[static_cast<std::size_t>(h * dim + d)], expected, 2e-5);
                }
            }
        }
    }
}

TEST(transformer_kernels, attention_of_several_tokens_has_the_bits_of_each) {
    namespace k = multidraft::examples::kernels;
    std::mt19937 random(2);
    std::normal_distribution<float> normal;
    auto const below = [&](std::int32_t n) {
        return static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(n));
    };
    std::int32_t const capacity = 160;
    for (std::int32_t const dim : {2, 24, 64, 80}) {
        for (std::int32_t const heads : {1, 2, 3, 6, 7, 13}) {
            for (std::int32_t const count : {1, 2, 5, 8, 13}) {
                std::vector<float> keys(static_cast<std::size_t>(capacity * dim));
                std::vector<float> values(static_cast<std::size_t>(capacity * k::round_up(dim, k::lanes)));
                for (float& x : keys) x = normal(random);
                for (float& x : values) x = normal(random);
                k::attention_view const cache{keys.data(), values.data(), dim, 0.3F};
                std::size_t const numbers = static_cast<std::size_t>(heads * dim);
                std::vector<float> queries(static_cast<std::size_t>(count) * numbers);
                for (float& x : queries) x = normal(random);
                std::vector<float> together(queries.size(), -7.0F);
                std::vector<float> apart(queries.size(), 7.0F);
                std::vector<float> scratch(k::attention_scratch(capacity, dim));
                // As in trees: a text and some of the nodes after it; now and then a token without the text.
                std::int32_t const text = below(3) == 0 ? 1 : 1 + below(120);
                std::vector<std::vector<k::run>> runs(static_cast<std::size_t>(count));
                std::vector<k::token_attention> tokens;
                for (std::size_t t = 0; t < runs.size(); ++t) {
                    if (below(8) > 0) runs[t].push_back({0, text + below(4)});
                    std::int32_t next = runs[t].empty() ? below(8) : runs[t].back().count + 1;
                    for (std::int32_t more = below(4) + (runs[t].empty() ? 1 : 0); more > 0; --more) {
                        std::int32_t const length = 1 + below(3);
                        runs[t].push_back({next, length});
                        next += length + 1 + below(2);
                    }
                    tokens.push_back(
                        {queries.data() + t * numbers, together.data() + t * numbers, runs[t].data(), runs[t].size()});
                }
                k::attend(cache, tokens, heads, scratch.data());
                for (std::size_t t = 0; t < runs.size(); ++t) {
                    k::token_attention const alone{queries.data() + t * numbers, apart.data() + t * numbers,
                                                   runs[t].data(), runs[t].size()};
                    k::attend(cache, {&alone, 1}, heads, scratch.data());
                }
                ASSERT_TRUE(same_bits(together, apart)) << dim << " " << heads << " " << count;
            }
        }
    }
}

/// The half nearest to a number in double, by search among all; of two as near the one with an even last bit.
float value_of(std::uint16_t half) {
    int const exponent = half >> 10 & 31;
    double const size = exponent == 0 ? std::ldexp(half & 1023, -24) : std::ldexp((half & 1023) + 1024, exponent - 25);
    return static_cast<float>((half & 0x8000) != 0 ? -size : size);
}
std::uint16_t nearest_half(float x) {
    std::uint16_t best = 0;
    for (std::uint16_t h = 0; h < 31 << 10; ++h) {
        double const size = std::min(std::abs(double{x}), 65504.0);
        double const distance = std::abs(size - double{value_of(h)});
        double const least = std::abs(size - double{value_of(best)});
        if (distance < least || (distance == least && h % 2 == 0)) best = h;
    }
    return static_cast<std::uint16_t>(best | (std::signbit(x) ? 0x8000 : 0));
}

TEST(transformer_kernels, rounds_to_halves) {
    namespace k = multidraft::examples::kernels;
    std::mt19937 random(5);
    std::vector<float> numbers{0,
                               -0.0F,
                               1,
                               65504,
                               65520,
                               1e9F,
                               -1e30F,
                               6.1035156e-5F,
                               6.0975552e-5F,
                               5e-8F,
                               2e-8F,
                               2.9e-8F,
                               -3e-8F,
                               1e-30F,
                               1e-40F,
                               2049,
                               2051,
                               -0.33333F,
                               1.0005F,
                               std::ldexp(1.0F, -24),
                               std::ldexp(3.0F, -25),
                               std::ldexp(1.0F, -25),
                               std::numeric_limits<float>::infinity()};
    for (int i = 0; i < 60; ++i)
        numbers.push_back(std::ldexp(static_cast<float>(random()) / 4e9F - 0.5F, static_cast<int>(random() % 44) - 27));
    for (std::size_t const n : {numbers.size(), std::size_t{1}, std::size_t{7}, std::size_t{16}, std::size_t{33}}) {
        std::vector<k::half> rounded(n + 1, k::half{0x1234});
        k::round(numbers.data(), n, rounded.data());
        for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(rounded[i], k::half{nearest_half(numbers[i])}) << numbers[i];
        EXPECT_EQ(rounded[n], k::half{0x1234});
    }
    float const none = std::numeric_limits<float>::quiet_NaN();
    k::half stays{};
    k::round(&none, 1, &stays);
    EXPECT_GT(static_cast<unsigned>(stays) & 0x7fffU, 0x7c00U);
}

// With halves the attention has the bits of one over the same numbers in float.
TEST(transformer_kernels, attention_over_halves) {
    namespace k = multidraft::examples::kernels;
    std::mt19937 random(6);
    std::normal_distribution<float> normal;
    std::int32_t const capacity = 160;
    for (std::int32_t const dim : {2, 24, 64, 80}) {
        for (std::int32_t const heads : {1, 2, 3, 6, 7, 13}) {
            for (std::int32_t const count : {1, 2, 5}) {
                std::vector<float> keys(static_cast<std::size_t>(capacity * dim));
                std::vector<float> values(static_cast<std::size_t>(capacity * k::round_up(dim, k::lanes)));
                std::vector<k::half> half_keys(keys.size()), half_values(values.size());
                auto const fill = [&](std::vector<float>& floats, std::vector<k::half>& halves) {
                    // Now and then one below the least normal half.
                    for (float& x : floats) x = normal(random) * (random() % 50 == 0 ? 1e-5F : 1.0F);
                    k::round(floats.data(), floats.size(), halves.data());
                    for (std::size_t i = 0; i < floats.size(); ++i)
                        floats[i] = value_of(static_cast<std::uint16_t>(halves[i]));
                };
                fill(keys, half_keys);
                fill(values, half_values);
                std::size_t const numbers = static_cast<std::size_t>(heads * dim);
                std::vector<float> queries(static_cast<std::size_t>(count) * numbers);
                for (float& x : queries) x = normal(random);
                std::vector<float> of_floats(queries.size(), -7.0F), of_halves(queries.size(), 7.0F);
                std::vector<float> scratch(k::attention_scratch(capacity, dim));
                std::vector<k::run> const runs{{0, 101}, {107, 3}};
                auto const attend = [&](k::attention_view const& cache, std::vector<float>& out) {
                    std::vector<k::token_attention> tokens;
                    for (std::size_t t = 0; t < static_cast<std::size_t>(count); ++t)
                        tokens.push_back(
                            {queries.data() + t * numbers, out.data() + t * numbers, runs.data(), 1 + t % 2});
                    k::attend(cache, tokens, heads, scratch.data());
                };
                attend({keys.data(), values.data(), dim, 0.3F}, of_floats);
                attend({half_keys.data(), half_values.data(), dim, 0.3F, k::cache_numbers::halves}, of_halves);
                ASSERT_TRUE(same_bits(of_floats, of_halves)) << dim << " " << heads << " " << count;
            }
        }
    }
}

// An entry is what was written, in floats as it is, in halves rounded; a copy is the same entry elsewhere.
TEST(transformer_kernels, a_cache_keeps_its_entries) {
    using multidraft::examples::key_value_cache;
    namespace k = multidraft::examples::kernels;
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    for (std::int32_t const dim : {2, 24, 64, 80, 200}) {
        for (auto const numbers : {k::cache_numbers::floats, k::cache_numbers::halves}) {
            key_value_cache cache(2, 3, dim, 48, numbers);
            auto const length = static_cast<std::size_t>(dim);
            std::vector<float> key(length), value(length), query(length), out(length);
            for (std::size_t d = 0; d < length; ++d) {
                key[d] = normal(random);
                value[d] = normal(random);
                query[d] = normal(random);
            }
            cache.write(1, 2, 17, key.data(), value.data());
            cache.copy(17, 40);
            std::vector<float> scratch(k::attention_scratch(48, dim));
            for (std::int32_t const entry : {17, 40}) {
                // The only entry attended to: its value.
                k::run const one{entry, 1};
                k::token_attention const token{query.data(), out.data(), &one, 1};
                k::attend(cache.view(1, 2), {&token, 1}, 1, scratch.data());
                std::vector<k::half> rounded(length);
                k::round(value.data(), length, rounded.data());
                for (std::size_t d = 0; d < length; ++d)
                    ASSERT_EQ(out[d], numbers == k::cache_numbers::floats
                                          ? value[d]
                                          : value_of(static_cast<std::uint16_t>(rounded[d])));
                // Beside an entry of zeros: the weight tells the score.
                std::vector<float> const nothing(length, 0.0F);
                cache.write(1, 2, entry + 1, nothing.data(), nothing.data());
                k::run const two{entry, 2};
                k::token_attention const both{query.data(), out.data(), &two, 1};
                k::attend(cache.view(1, 2), {&both, 1}, 1, scratch.data());
                double score = 0;
                for (std::size_t d = 0; d < length; ++d) score += double{key[d]} * double{query[d]};
                double const weight = 1 / (1 + std::exp(-score / std::sqrt(dim)));
                for (std::size_t d = 0; d < length; ++d) ASSERT_NEAR(out[d], weight * double{value[d]}, 5e-3) << dim;
            }
        }
    }
}

TEST(transformer_kernels, norm_gate_and_rounding) {
    namespace k = multidraft::examples::kernels;
    std::mt19937 random(2);
    std::normal_distribution<float> normal;
    for (std::int32_t const n : {1, 15, 16, 17, 48, 100}) {
        auto const length = static_cast<std::size_t>(n);
        std::vector<float> x(length), add(length), weight(length), out(length);
        std::vector<float> gate_up(2 * length);
        double squares = 0;
        for (std::size_t i = 0; i < length; ++i) {
            x[i] = normal(random);
            add[i] = normal(random);
            weight[i] = normal(random);
            squares += std::pow(double{x[i] + add[i]}, 2);
        }
        auto const before = x;
        k::norm(x.data(), add.data(), weight.data(), n, 1e-5F, out.data());
        double const scale = 1 / std::sqrt(squares / n + 1e-5);
        for (std::size_t i = 0; i < length; ++i) {
            EXPECT_EQ(x[i], before[i] + add[i]);
            EXPECT_NEAR(out[i], double{x[i]} * scale * double{weight[i]}, 1e-5);
        }
        for (float& g : gate_up) g = 30 * normal(random);
        gate_up[0] = -1000;
        k::gated(gate_up.data(), n, out.data());
        std::vector<k::bfloat16> rounded(length);
        k::round(out.data(), length, rounded.data());
        for (std::size_t i = 0; i < length; ++i) {
            double const g = gate_up[i];
            double const expected = g / (1 + std::exp(-g)) * double{gate_up[length + i]};
            EXPECT_NEAR(out[i], expected, 1e-6 * std::abs(expected) + 1e-30);
            EXPECT_EQ(rounded[i], k::to_bfloat16(out[i]));
        }
    }
    EXPECT_EQ(k::to_bfloat16(1.0F), k::bfloat16{0x3f80});
    EXPECT_EQ(k::to_bfloat16(1.00390625F), k::bfloat16{0x3f80});  // half way, to even
    EXPECT_EQ(k::to_bfloat16(1.01171875F), k::bfloat16{0x3f82});
    EXPECT_EQ(k::to_float(k::bfloat16{0x3f82}), 1.015625F);
}

}  // namespace
}  // namespace kernels_test
