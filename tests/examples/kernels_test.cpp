// The loops between the example transformer's products against plain sums in double.
#include "transformer/kernels.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "examples/model_support.hpp"

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
