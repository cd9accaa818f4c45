// Levels drawn on host threads: the tokens of each entry alone, for any number of threads; errors.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "batch/ragged.hpp"
#include "multidraft/batch/draft.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/draft/conditional_poisson.hpp"
#include "multidraft/draft/gumbel_top_k.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/shared_randomness.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/draft/top_n.hpp"
#include "multidraft/draft/top_paired.hpp"
#include "support/refusal.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {
namespace draft_test {
namespace {

template <class T, class Sampler>
void expect_draws_of_entries_alone(Sampler const& sampler) {
    ragged<T> alone(ragged_shapes, 300, samplings_of_all_kinds);
    ragged<T> const blank = alone;
    alone.draw_alone(sampler);
    for (int const threads : {1, 2, 5}) {
        host_threads const pool(threads);
        ragged<T> b = blank;
        b.draw_levels(
            [&](level_batch const& level, logit_batch<T> const& rows, request_batch const& requests,
                children_batch const& out) { draft_batch(pool, sampler, level, draft_rows(rows), requests, out); });
        EXPECT_EQ(b.tokens, alone.tokens);
        EXPECT_EQ(b.certain, alone.certain);
        for (std::size_t i = 0; i < b.states.size(); ++i) {
            EXPECT_EQ(b.states[i].mass, alone.states[i].mass);
            EXPECT_EQ(b.states[i].largest, alone.states[i].largest);
            EXPECT_EQ(b.states[i].cut_value, alone.states[i].cut_value);
            EXPECT_EQ(b.states[i].cut_last, alone.states[i].cut_last);
        }
    }
}

TEST(batch_draft, draws_as_entries_alone_do) {
    expect_draws_of_entries_alone<float>(draft::sequential{});
    expect_draws_of_entries_alone<float16>(draft::iid{});
    expect_draws_of_entries_alone<double>(draft::sequential{});
    expect_draws_of_entries_alone<float>(draft::stratified{});
    expect_draws_of_entries_alone<bfloat16>(draft::gumbel_top_k{});
    expect_draws_of_entries_alone<float>(draft::top_n{});
    expect_draws_of_entries_alone<float>(draft::shared_randomness{});
}

TEST(batch_draft, refuses_what_the_sampler_refuses) {
    std::vector<float> const logits(40, 0.0F);
    std::vector<std::int32_t> const requests{0, 0};
    std::vector<node_id> const nodes{0, 1};
    std::vector<std::int32_t> wanted{1, 17};
    std::vector<std::int32_t> const depths{0, 1};
    std::vector<std::uint64_t> const seeds{1};
    std::vector<std::int32_t> const positions{0};
    std::vector<token_id> tokens(40, -9);
    children_batch out;
    std::vector<index_t> certain(2);
    out.tokens = tokens.data();
    out.stride = 20;
    out.certain = certain.data();
    auto const drawn = [&](auto const& sampler) {
        return refusal([&] {
            draft_batch(host_threads(1), sampler,
                        level_batch{2, requests.data(), nodes.data(), wanted.data(), depths.data()},
                        draft_rows(logit_batch<float>({.data = logits.data(), .vocabulary = 20})),
                        request_batch{seeds.data(), positions.data()}, out);
        });
    };
    EXPECT_EQ(drawn(draft::conditional_poisson{}),
              "level.wanted[1] = 17: conditional Poisson sampling draws up to 16 children");
    EXPECT_EQ(drawn(draft::top_paired{}),
              "level.wanted[1] = 17: the law of SpecHub, law::top_paired, has two candidates");
    EXPECT_EQ(drawn(draft::stratified{7.0}), "theta = 7: the threshold of the certainty rule is in [0, 1]");
    EXPECT_EQ(tokens, std::vector<token_id>(40, -9));
}

/// Output with a stride for the children; rows that are not distributions.
TEST(batch_draft, fills_what_was_not_drawn_with_none) {
    ragged<float> b(ragged_shapes, 300, {{}});
    for (index_t i = 0; i < 300; ++i)
        b.draft[300 + static_cast<std::size_t>(i)] = std::numeric_limits<float>::quiet_NaN();
    std::vector<std::int32_t> const requests{0, 0, 1, 2};
    std::vector<node_id> const nodes{0, 1, 0, 0};
    std::vector<std::int32_t> const wanted{3, 3, 0, 4};
    std::vector<token_id> tokens(16, -7);
    std::vector<index_t> counts(4, -7);
    draft_batch(host_threads(2), draft::sequential{}, {4, requests.data(), nodes.data(), wanted.data()},
                draft_rows(b.draft_logits()), b.requests(), {tokens.data(), nullptr, 4, counts.data()});
    EXPECT_EQ(counts, (std::vector<index_t>{3, 0, 0, 4}));
    for (std::size_t e = 0; e < 4; ++e)
        for (index_t k = 0; k < 4; ++k) {
            token_id const token = tokens[4 * e + static_cast<std::size_t>(k)];
            EXPECT_EQ(is_absent(token), k >= counts[e]);
            token_id const reason = k < wanted[e] ? support_ended : padding;
            EXPECT_EQ(is_absent(token) ? token : reason, reason);
        }
    std::vector<token_id> without(16, -7);
    draft_batch(host_threads(1), draft::sequential{}, {4, requests.data(), nodes.data(), nullptr},
                draft_rows(b.draft_logits()), b.requests(), {without.data(), nullptr, 4, counts.data()});
    EXPECT_EQ(counts, (std::vector<index_t>{4, 0, 4, 4}));
    draft_batch(host_threads(1), draft::sequential{}, {}, draft_rows(b.draft_logits()), b.requests(), {});
}

TEST(batch_draft, refuses_what_cannot_be) {
    ragged<float> b(ragged_shapes, 300, {{}});
    std::vector<std::int32_t> const requests{0, 1};
    std::vector<node_id> const nodes{0, 0};
    std::vector<std::int32_t> const wanted{2, 3};
    std::vector<token_id> tokens(8, -7);
    auto const expect = [&](auto const& change, std::string const& argument, std::int64_t index) {
        level_batch level{2, requests.data(), nodes.data(), wanted.data()};
        logit_batch<float> rows = b.draft_logits();
        children_batch out{tokens.data(), nullptr, 3};
        request_batch of_requests = b.requests();
        change(level, rows, of_requests, out);
        try {
            draft_batch(host_threads(2), draft::sequential{}, level, draft_rows(rows), of_requests, out);
            ADD_FAILURE() << argument;
        } catch (invalid_input const& e) {
            EXPECT_EQ(e.argument(), argument) << e.what();
            EXPECT_EQ(e.index(), index) << e.what();
        }
        EXPECT_EQ(tokens, std::vector<token_id>(8, -7));
    };
    static std::vector<std::int32_t> const negative{0, -1};
    static std::vector<std::int64_t> const rows_of{0, -1};
    std::vector<sampling_params> sampling(6);
    sampling[1].top_k = -2;
    expect([](auto& l, auto&, auto&, auto&) { l.entries = -1; }, "level.entries", -1);
    expect([](auto& l, auto&, auto&, auto&) { l.nodes = nullptr; }, "level.nodes", -1);
    expect([](auto& l, auto&, auto&, auto&) { l.requests = negative.data(); }, "level.requests", 1);
    expect([](auto& l, auto&, auto&, auto&) { l.nodes = negative.data(); }, "level.nodes", 1);
    expect([](auto& l, auto&, auto&, auto&) { l.wanted = negative.data(); }, "level.wanted", 1);
    expect([](auto&, auto&, auto&, auto& o) { o.stride = 2; }, "level.wanted", 1);
    expect([](auto&, auto& r, auto&, auto&) { r.row_of = rows_of.data(); }, "draft.row_of", 1);
    expect([&](auto&, auto& r, auto&, auto&) { r.sampling = sampling.data(); }, "draft.top_k", 1);
    expect([](auto&, auto&, auto& r, auto&) { r.positions = negative.data(); }, "positions", 1);
    expect([](auto&, auto&, auto&, auto& o) { o.tokens = nullptr; }, "out.tokens", -1);
    level_batch const level{2, requests.data(), nodes.data(), wanted.data()};
    EXPECT_THROW(draft_batch(host_threads(2), draft::shared_randomness{}, level, draft_rows(b.draft_logits()),
                             b.requests(), {tokens.data(), nullptr, 3}),
                 invalid_input);
    EXPECT_THROW(draft_batch(host_threads(2), draft::stratified{}, level, draft_rows(b.draft_logits()), b.requests(),
                             {tokens.data(), nullptr, 3}),
                 invalid_input);
    ragged<double> wide(ragged_shapes, 300, {{}});
    children_batch out{tokens.data(), nullptr, 3};
    out.states = wide.states.data();
    EXPECT_THROW(
        draft_batch(host_threads(2), draft::sequential{}, level, draft_rows(wide.draft_logits()), wide.requests(), out),
        invalid_input);
}

}  // namespace
}  // namespace draft_test
}  // namespace MULTIDRAFT_NAMESPACE::testing
