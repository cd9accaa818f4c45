// Levels drawn on ranks: every sampler draws the tokens of the host, with the same q.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "batch/ragged.hpp"
#include "multidraft/draft/conditional_poisson.hpp"
#include "multidraft/draft/gumbel_top_k.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/shared_randomness.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/draft/top_n.hpp"
#include "multidraft/draft/top_paired.hpp"
#include "multidraft/draft/top_then_one.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/shards/draft.hpp"
#include "multidraft/tree/absent_tokens.hpp"
#include "shards/ragged_shards.hpp"
#include "support/refusal.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {
namespace draft_test {
namespace {

template <class T, class Sampler>
void expect_tokens_of_host(Sampler const& sampler, index_t v,
                           std::vector<std::vector<node_id>> const& shapes = ragged_shapes) {
    ragged<T> alone(shapes, v, samplings_of_all_kinds);
    ragged<T> const blank = alone;
    // Ranks draw the same tokens, and translate them to another vocabulary.
    std::vector<token_id> token_of;
    for (index_t x = 0; x < v; ++x) token_of.push_back(2 * v - x);
    Sampler through_map = sampler;
    if constexpr (requires { through_map.token_of; }) through_map.token_of = token_of.data();
    alone.draw_alone(through_map);
    std::vector<token_id> expected = alone.tokens;
    for (std::size_t i = 0; i < expected.size(); ++i)
        if (alone.parents[i] != none && !is_absent(expected[i]))
            expected[i] = token_of[static_cast<std::size_t>(expected[i])];
    std::mutex one_at_a_time;
    for (int const ranks : {1, 3, 5})
        for (cut const how : {cut::even, cut::uneven}) {
            SCOPED_TRACE(std::to_string(ranks) + " ranks, cut " + std::to_string(static_cast<int>(how)));
            run_ranks(ranks, [&](thread_rank& rank) {
                shards::rank_team team(rank, columns_by(how, v, ranks, rank.rank()));
                ragged<T> b = blank;
                std::vector<float> chances(b.tokens.size(), 77.0F);
                std::vector<float> expected_chances = chances;
                columns_of_rows<T> const q(b.draft, v, team.columns().of(rank.rank()), b.sampling.data());
                b.draw_levels([&](level_batch const& level, logit_batch<T> const& rows, request_batch const& requests,
                                  children_batch out) {
                    out.probabilities = chances.data();
                    out.token_of = token_of.data();
                    shards::shard_batch<T> mine = q.view();
                    mine.row_of = rows.row_of;
                    draft_batch(team, sampler, level, draft_rows(mine), requests, out);
                    for (std::int32_t e = 0; e < level.entries; ++e) {
                        auto const row = rows(host_group{}, e, level.requests[e]);
                        for (std::int32_t k = 0; k < level.wanted[e]; ++k) {
                            auto const i = static_cast<std::size_t>(out.first[e] + k);
                            token_id const x = alone.tokens[i];
                            expected_chances[i] = is_absent(x) ? 0.0F : static_cast<float>(row(x));
                        }
                    }
                });
                std::scoped_lock const lock(one_at_a_time);
                EXPECT_EQ(b.tokens, expected);
                EXPECT_EQ(chances, expected_chances);
                EXPECT_EQ(b.certain, alone.certain);
                for (std::size_t i = 0; i < b.states.size(); ++i) {
                    EXPECT_EQ(b.states[i].mass, alone.states[i].mass);
                    EXPECT_EQ(b.states[i].cut_value, alone.states[i].cut_value);
                    EXPECT_EQ(b.states[i].cut_last, alone.states[i].cut_last);
                }
            });
        }
}

TEST(shard_draft, draws_as_one_host_does) {
    expect_tokens_of_host<float>(draft::sequential{}, 9001);
    expect_tokens_of_host<float16>(draft::iid{}, 9001);
    expect_tokens_of_host<bfloat16>(draft::stratified{}, 9001);
    expect_tokens_of_host<float>(draft::top_n{}, 300);
    expect_tokens_of_host<float>(draft::top_then_one{}, 9001);
    expect_tokens_of_host<float>(draft::gumbel_top_k{}, 5000);
    expect_tokens_of_host<float>(draft::shared_randomness{}, 5000);
    expect_tokens_of_host<float>(draft::conditional_poisson{}, 5000);
    std::vector<std::vector<node_id>> const pairs{{none, 0, 0, 1, 1, 2}, {none, 0, 1, 2}, {none},
                                                  {none, 0, 0, 1, 2},    {none, 0},       {none, 0, 0, 1, 2}};
    expect_tokens_of_host<float>(draft::top_paired{}, 9001, pairs);
}

/// Ranks that want other outputs would exchange other entries: all refuse, and none waits.
TEST(shard_draft, refuses_outputs_that_one_rank_wants_alone) {
    ragged<float> const blank(ragged_shapes, 5000, samplings_of_all_kinds);
    for (bool const of_states : {false, true}) {
        std::vector<std::string> said(3);
        run_ranks(3, [&](thread_rank& rank) {
            auto const me = static_cast<std::size_t>(rank.rank());
            shards::rank_team team(rank, columns_by(cut::even, 5000, 3, rank.rank()));
            ragged<float> b = blank;
            std::vector<float> chances(b.tokens.size());
            columns_of_rows<float> const q(b.draft, 5000, team.columns().of(rank.rank()), b.sampling.data());
            said[me] = refusal([&] {
                b.draw_levels([&](level_batch const& level, logit_batch<float> const& rows,
                                  request_batch const& requests, children_batch out) {
                    if (of_states && me > 0) out.states = nullptr;
                    if (!of_states && me == 0) out.probabilities = chances.data();
                    shards::shard_batch<float> mine = q.view();
                    mine.row_of = rows.row_of;
                    draft_batch(team, draft::iid{}, level, draft_rows(mine), requests, out);
                });
            });
        });
        EXPECT_EQ(said[0].substr(0, 9), "level[1] ") << said[0];
        EXPECT_EQ(said[1], said[0]);
        EXPECT_EQ(said[2], said[0]);
    }
}

}  // namespace
}  // namespace draft_test
}  // namespace MULTIDRAFT_NAMESPACE::testing
