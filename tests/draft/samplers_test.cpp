// Edge cases of samplers: extreme uniforms, tokens of no mass, supports smaller than the number of children.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <set>
#include <vector>

#include "multidraft/draft/gumbel_top_k.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sampler.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/top_n.hpp"
#include "multidraft/draft/top_paired.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/probabilities.hpp"
#include "multidraft/rows/softmax.hpp"
#include "support/scripted.hpp"

namespace samplers_test {
namespace {

namespace draft = multidraft::draft;
using multidraft::addressed_source;
using multidraft::addressed_uniforms;
using multidraft::draw_site;
using multidraft::host_group;
using multidraft::index_t;
using multidraft::probabilities;
using multidraft::row_view;
using multidraft::sampling_params;
using multidraft::span;
using multidraft::token_id;
using multidraft::weight_of;
using multidraft::testing::scripted_source;
using tokens = std::vector<token_id>;

static_assert(multidraft::sampler<draft::iid>);
static_assert(multidraft::sampler<draft::sequential>);
static_assert(multidraft::sampler<draft::gumbel_top_k>);
static_assert(multidraft::sampler<draft::top_n>);

constexpr double last = 1.0 - 0x1p-53;  // the largest uniform
constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

template <class Sampler, class Source>
tokens draw(Sampler sampler, std::vector<float> const& row, std::size_t n, Source& source, draw_site site = {},
            token_id before = -7) {
    host_group const g;
    probabilities<float> const q(row.data(), static_cast<index_t>(row.size()));
    auto sums = g.sum_chunks(q.size(), weight_of{q});
    tokens out(n, before);
    out.resize(static_cast<std::size_t>(sampler(g, q, sums, source, site, span<token_id>(out)).count));
    return out;
}

template <class Sampler>
tokens draw_scripted(Sampler sampler, std::vector<float> const& row, std::vector<double> const& uniforms) {
    scripted_source source(uniforms);
    return draw(sampler, row, uniforms.size(), source);
}

template <class Sampler>
tokens draw_logits(Sampler sampler, std::vector<float> const& logits, std::size_t n, sampling_params const& w,
                   draw_site site, std::uint64_t seed = 1, std::uint32_t request = 0) {
    host_group const g;
    addressed_source source{addressed_uniforms(seed, request)};
    auto q = multidraft::process_logits(g, row_view<float>(logits.data(), static_cast<index_t>(logits.size())), w);
    tokens out(n, -7);
    out.resize(static_cast<std::size_t>(sampler(g, q.row, q.sums, source, site, span<token_id>(out)).count));
    return out;
}

template <class F>
void for_every_sampler(F f) {
    f(draft::iid{});
    f(draft::sequential{});
    f(draft::gumbel_top_k{});
    f(draft::top_n{});
}

template <class F>
void for_every_sampler_without_replacement(F f) {
    f(draft::sequential{});
    f(draft::gumbel_top_k{});
    f(draft::top_n{});
}

bool distinct(tokens const& drawn) { return std::set<token_id>(drawn.begin(), drawn.end()).size() == drawn.size(); }

TEST(iid, takes_the_first_and_the_last_token_with_mass_at_the_ends_of_the_uniforms) {
    std::vector<float> const row{0.0F, 0.5F, 0.0F, 0.5F, 0.0F};
    EXPECT_EQ(draw_scripted(draft::iid{}, row, {0.0, last, 0.0, last}), (tokens{1, 3, 1, 3}));
    // The running sum must exceed u * total: 1/2 belongs to the second token.
    EXPECT_EQ(draw_scripted(draft::iid{}, row, {0.5 - 0x1p-24, 0.5}), (tokens{1, 3}));
}

TEST(sequential, takes_the_first_and_the_last_token_left_at_the_ends_of_the_uniforms) {
    std::vector<float> const row{0.0F, 0.25F, 0.0F, 0.5F, 0.25F, 0.0F};
    EXPECT_EQ(draw_scripted(draft::sequential{}, row, {0.0, 0.0, 0.0}), (tokens{1, 3, 4}));
    EXPECT_EQ(draw_scripted(draft::sequential{}, row, {last, last, last}), (tokens{4, 3, 1}));
    EXPECT_EQ(draw_scripted(draft::sequential{}, row, {0.5, last, 0.0}), (tokens{3, 4, 1}));
}

// After token 3 is drawn the others have 1/4 each of a mass of 1/2: the second draw is renormalised.
TEST(sequential, renormalises_what_is_left) {
    std::vector<float> const row{0.0F, 0.25F, 0.0F, 0.5F, 0.25F, 0.0F};
    EXPECT_EQ(draw_scripted(draft::sequential{}, row, {0.25, 0.5 - 0x1p-24}), (tokens{3, 1}));
    EXPECT_EQ(draw_scripted(draft::sequential{}, row, {0.25, 0.5}), (tokens{3, 4}));
}

TEST(sequential, draws_the_whole_support_when_it_is_smaller_than_the_children_wanted) {
    std::vector<float> const row{0.0F, 0.25F, 0.0F, 0.75F};
    for (double const u : {0.0, 0.3, last}) {
        tokens drawn = draw_scripted(draft::sequential{}, row, {u, u, u, u});
        std::sort(drawn.begin(), drawn.end());
        EXPECT_EQ(drawn, (tokens{1, 3}));
    }
}

TEST(top_n, takes_the_largest_with_ties_to_the_lower_token_and_no_uniform) {
    std::vector<double> const nothing;
    scripted_source source(nothing);
    EXPECT_EQ(draw(draft::top_n{}, {0.1F, 0.3F, 0.2F, 0.3F, 0.1F}, 4, source), (tokens{1, 3, 2, 0}));
    EXPECT_EQ(draw(draft::top_n{}, {0.0F, 0.5F, 0.0F, 0.5F}, 3, source), (tokens{1, 3})) << "no token without mass";
    EXPECT_EQ(source.used(), 0U);
}

// Memory of an earlier call holds tokens that could be this row's.
TEST(samplers, never_read_the_tokens_that_they_are_to_write) {
    // In several chunks, whose sums decide between them.
    index_t const chunk = multidraft::chunk_size;
    tokens const support{3, 5, chunk, chunk + 7, 2 * chunk + 1, 2 * chunk + 2};
    std::vector<float> row(static_cast<std::size_t>(3 * chunk));
    for (std::size_t k = 0; k < support.size(); ++k)
        row[static_cast<std::size_t>(support[k])] = 0.05F + 0.1F * static_cast<float>(k);
    for_every_sampler([&](auto sampler) {
        for (std::uint64_t seed = 0; seed < 20; ++seed) {
            auto const drawn_over = [&](token_id before) {
                addressed_source source{addressed_uniforms(seed, 0)};
                return draw(sampler, row, 4, source, {}, before);
            };
            tokens const expected = drawn_over(-7);
            for (token_id const before : support)
                EXPECT_EQ(drawn_over(before), expected) << "seed " << seed << ", over tokens " << before;
        }
    });
}

TEST(samplers, refuse_to_run_past_the_end_of_a_script) {
    std::vector<double> const one{0.5};
    scripted_source source(one);
    EXPECT_THROW(static_cast<void>(draw(draft::iid{}, {0.5F, 0.5F}, 2, source)), multidraft::invalid_input);
}

TEST(samplers, draw_nothing_when_no_children_are_wanted) {
    addressed_source source;
    for_every_sampler([&](auto sampler) { EXPECT_TRUE(draw(sampler, {0.5F, 0.5F}, 0, source).empty()); });
}

TEST(samplers, know_a_vocabulary_of_one_token) {
    addressed_source source;
    EXPECT_EQ(draw(draft::iid{}, {1.0F}, 3, source), (tokens{0, 0, 0}));
    for_every_sampler_without_replacement(
        [&](auto sampler) { EXPECT_EQ(draw(sampler, {1.0F}, 3, source), (tokens{0})); });
}

TEST(samplers, give_fewer_children_when_there_are_fewer_tokens) {
    addressed_source source;
    std::vector<float> const row{0.25F, 0.25F, 0.25F, 0.25F};
    EXPECT_EQ(draw(draft::iid{}, row, 9, source).size(), 9U);
    for_every_sampler_without_replacement([&](auto sampler) {
        tokens drawn = draw(sampler, row, 9, source);
        std::sort(drawn.begin(), drawn.end());
        EXPECT_EQ(drawn, (tokens{0, 1, 2, 3}));
    });
}

TEST(samplers, draw_from_one_hot_rows) {
    addressed_source source;
    std::vector<float> row(10000, 0.0F);
    for (std::size_t const hot : {std::size_t{0}, std::size_t{4095}, std::size_t{4096}, std::size_t{9999}}) {
        std::fill(row.begin(), row.end(), 0.0F);
        row[hot] = 1.0F;
        auto const x = static_cast<token_id>(hot);
        EXPECT_EQ(draw(draft::iid{}, row, 2, source), (tokens{x, x}));
        for_every_sampler_without_replacement(
            [&](auto sampler) { EXPECT_EQ(draw(sampler, row, 2, source), tokens{x}); });
    }
}

// Whole chunks without mass lie between the tokens.
TEST(samplers, find_the_tokens_of_a_sparse_row_across_chunks) {
    std::vector<float> row(5 * 4096 + 3, 0.0F);
    row[1] = 0.25F;
    row[2 * 4096] = 0.25F;
    row[4 * 4096 - 1] = 0.25F;
    row[5 * 4096 + 2] = 0.25F;
    tokens const support{1, 2 * 4096, 4 * 4096 - 1, 5 * 4096 + 2};
    for (std::int32_t position = 0; position < 50; ++position) {
        addressed_source source{addressed_uniforms(5)};
        for (token_id const x : draw(draft::iid{}, row, 4, source, {position, 0}))
            EXPECT_TRUE(std::count(support.begin(), support.end(), x) == 1) << x;
        for_every_sampler_without_replacement([&](auto sampler) {
            tokens drawn = draw(sampler, row, 6, source, {position, 0});
            std::sort(drawn.begin(), drawn.end());
            EXPECT_EQ(drawn, support);
        });
    }
    EXPECT_EQ(draw_scripted(draft::sequential{}, row, {0.25, 0.0, last, last}),
              (tokens{2 * 4096, 1, 5 * 4096 + 2, 4 * 4096 - 1}));
}

TEST(samplers, never_draw_a_token_whose_logit_is_minus_infinity) {
    std::vector<float> const logits{minus_infinity, 1.0F, minus_infinity, 0.0F, -90.0F, minus_infinity};
    for_every_sampler([&](auto sampler) {
        for (std::int32_t position = 0; position < 500; ++position)
            for (token_id const x : draw_logits(sampler, logits, 6, {}, {position, 0}))
                EXPECT_TRUE(x == 1 || x == 3 || x == 4) << x;
    });
}

TEST(samplers, never_draw_a_token_that_was_truncated) {
    std::vector<float> const logits{2.0F, 1.0F, 1.0F, 0.0F};
    sampling_params const top{.temperature = 0.8F, .top_k = 2};  // the tie goes to token 1
    for_every_sampler([&](auto sampler) {
        for (std::int32_t position = 0; position < 200; ++position)
            for (token_id const x : draw_logits(sampler, logits, 4, top, {position, 0})) EXPECT_LT(x, 2);
    });
}

TEST(samplers, without_replacement_never_draw_a_token_twice) {
    std::vector<float> logits(9000);
    for (std::size_t i = 0; i < logits.size(); ++i) logits[i] = i % 1000 == 7 ? 8.0F : -static_cast<float>(i % 13);
    for_every_sampler_without_replacement([&](auto sampler) {
        for (std::int32_t position = 0; position < 100; ++position) {
            tokens const drawn = draw_logits(sampler, logits, 12, {}, {position, 3});
            EXPECT_EQ(drawn.size(), 12U);
            EXPECT_TRUE(distinct(drawn));
        }
    });
}

TEST(samplers, draw_the_same_from_the_same_seed_and_address_and_something_else_from_another) {
    std::vector<float> logits(500);
    for (std::size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(i % 7) * 0.25F;
    auto const check = [&](auto sampler) {
        tokens const drawn = draw_logits(sampler, logits, 8, {}, {10, 2}, 42, 5);
        EXPECT_EQ(drawn, draw_logits(sampler, logits, 8, {}, {10, 2}, 42, 5));
        EXPECT_NE(drawn, draw_logits(sampler, logits, 8, {}, {10, 2}, 43, 5)) << "seed";
        EXPECT_NE(drawn, draw_logits(sampler, logits, 8, {}, {10, 2}, 42, 6)) << "request";
        EXPECT_NE(drawn, draw_logits(sampler, logits, 8, {}, {11, 2}, 42, 5)) << "position";
        EXPECT_NE(drawn, draw_logits(sampler, logits, 8, {}, {10, 3}, 42, 5)) << "node";
    };
    check(draft::iid{});
    check(draft::sequential{});
    check(draft::gumbel_top_k{});
}

// The remaining mass is subnormal or nearly so: no draw is made from it.
TEST(samplers, end_where_what_is_left_cannot_be_drawn_right) {
    addressed_source source;
    for (float const tiny : {0.0F, 1e-45F, 1e-40F, 4e-32F}) {
        EXPECT_EQ(draw(draft::sequential{}, {1.0F, tiny, tiny}, 3, source), tokens{0}) << tiny;
        EXPECT_EQ(draw(draft::top_paired{}, {1.0F, tiny, tiny}, 2, source), tokens{0}) << tiny;
        EXPECT_EQ(draw(draft::iid{}, {tiny, tiny, 0}, 2, source), tokens{}) << tiny;
    }
    EXPECT_EQ(draw(draft::sequential{}, {1.0F, 2e-31F, 0.0F}, 3, source), (tokens{0, 1}));
    EXPECT_EQ(draw(draft::top_paired{}, {1.0F, 2e-31F, 0.0F}, 2, source), (tokens{0, 1}));
}

// The drafts of a smaller tree are the first ones of a larger tree.
TEST(samplers, draw_the_same_first_children_however_many_follow) {
    std::vector<float> logits(6000);
    for (std::size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(i % 11) * 0.5F;
    for_every_sampler([&](auto sampler) {
        for (std::int32_t position = 0; position < 20; ++position) {
            tokens const few = draw_logits(sampler, logits, 3, {}, {position, 0});
            tokens more = draw_logits(sampler, logits, 7, {}, {position, 0});
            more.resize(3);
            EXPECT_EQ(few, more);
        }
    });
}

}  // namespace
}  // namespace samplers_test
