// Recorded texts of beams and of large sets: the addresses of their draws, whose changes no proof detects.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "multidraft/draft/conditional_poisson.hpp"
#include "multidraft/draft/stochastic_beam.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/lossy/joint_decoding.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/probabilities.hpp"
#include "verify/recorded.hpp"

namespace recorded_draws_test {
namespace {

using namespace multidraft;
using namespace multidraft::testing;

TEST(recorded_draws, beams) {
    host_group const g;
    hash stochastic, sampled;
    std::vector<draft::beam> const beams{{0, -0.5, 0.75}, {1, -1.25, -0.25}, {2, -2.0, -1.0}};
    auto const row = [](index_t) { return probabilities<double>(q_row.data(), 4); };
    auto const place_of = [](index_t i) { return draw_site{11, i}; };
    for (std::uint64_t seed = 0; seed < 64; ++seed) {
        std::vector<double> numbers(3);
        std::vector<token_id> taken(12);
        std::vector<index_t> counts(3);
        std::vector<draft::beam_step> out(4);
        for (bool const is_stochastic : {true, false}) {
            addressed_source source{addressed_uniforms(seed)};
            std::vector<decltype(g.sum_chunks(4, weight_of{row(0)}))> sums(3, g.sum_chunks(4, weight_of{row(0)}));
            auto const sums_of = [&](index_t i) -> auto& { return sums[static_cast<std::size_t>(i)]; };
            span<draft::beam const> const from(beams);
            auto const n = is_stochastic
                               ? draft::stochastic_beam_level(g, from, row, sums_of, place_of, source,
                                                              span<double>(numbers), span<token_id>(taken),
                                                              span<index_t>(counts), span<draft::beam_step>(out))
                               : draft::beam_sampling_level(g, from, row, sums_of, place_of, source,
                                                            span<double>(numbers), span<token_id>(taken),
                                                            span<index_t>(counts), span<draft::beam_step>(out));
            hash& into = is_stochastic ? stochastic : sampled;
            into.mix(n);
            for (auto const& step : out) {
                into.mix(step.from);
                into.mix(step.token);
                into.mix(static_cast<std::int32_t>(std::lround(step.score * 4096)));
                into.mix(static_cast<std::int32_t>(std::lround(step.log_probability * 4096)));
            }
            for (auto const count : counts) into.mix(count);
        }
    }
    EXPECT_EQ(stochastic.value(), 9307337997300855324U);
    EXPECT_EQ(sampled.value(), 13949975433219466918U);
}

TEST(recorded_draws, sets_of_more_tokens_than_are_listed) {
    host_group const g;
    hash result;
    std::vector<double> const flat(64, 0x1p-6);
    probabilities<double> const row(flat.data(), 64);
    for (std::uint64_t seed = 0; seed < 64; ++seed) {
        addressed_source source{addressed_uniforms(seed)};
        auto sums = g.sum_chunks(64, weight_of{row});
        std::vector<token_id> out(4, none);
        result.mix(draft::conditional_poisson{}(g, row, sums, source, draw_site{11, 0}, out).count);
        for (token_id const x : out) result.mix(x);
    }
    EXPECT_EQ(result.value(), 5097095560509357453U);
}

}  // namespace
}  // namespace recorded_draws_test
