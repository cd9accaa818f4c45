// Requests of all kinds for the loops over many of them, what each writes alone, and a run in which they come, go and
// are cancelled.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "multidraft/batch/host_threads.hpp"
#include "multidraft/decode/continuous_batching.hpp"
#include "multidraft/decode/speculative.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/tree/shapes.hpp"
#include "multidraft/verify/nested_ranked_block.hpp"
#include "support/batched_table_model.hpp"
#include "support/table_model.hpp"

namespace MULTIDRAFT_NAMESPACE::testing::many {

using model = batched_table_model<float>;
using sampler_type = draft::stratified;
using verifier_type = verify::nested_ranked_block<law::stratified>;

inline constexpr std::int32_t vocabulary = 20;

inline conditional law_of_target() { return random_conditional(vocabulary, 31); }
inline conditional law_of_draft() { return random_conditional(vocabulary, 32, 2); }

struct asked {
    std::vector<token_id> prompt;
    generation_options options;
};

/// Prompts of 1 to 30 tokens, up to 25 tokens wanted, all kinds of parameters.
inline std::vector<asked> random_requests(std::size_t count, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    auto const below = [&](std::uint64_t n) { return static_cast<std::int32_t>(random() % n); };
    std::vector<asked> result(count);
    for (std::size_t k = 0; k < count; ++k) {
        asked& a = result[k];
        a.prompt.resize(static_cast<std::size_t>(1 + below(30)));
        for (auto& x : a.prompt) x = below(vocabulary);
        a.options.max_tokens = below(26);
        a.options.sampling.temperature = static_cast<float>(below(4)) * 0.4F;
        a.options.sampling.top_k = below(3) == 0 ? 5 : 0;
        if (below(4) == 0) a.options.draft_sampling = sampling_params{.top_k = 2};
        if (below(3) == 0) a.options.stop_tokens = {below(vocabulary)};
        a.options.seed = 7;
        a.options.request = static_cast<std::uint32_t>(k);
    }
    return result;
}

/// The loop of one request; where the draft's support ends early, which gives the nodes other numbers, one sequence.
inline generation alone(asked const& a, topology const& shape, std::int32_t context_limit = 1 << 20,
                        std::int32_t context_limit_of_draft = 1 << 20) {
    auto const& w = a.options.draft_sampling.value_or(a.options.sampling);
    if (w.top_k == 0 && w.temperature > 0) {
        table_model<float> target(vocabulary, law_of_target(), context_limit);
        table_model<float> draft(vocabulary, law_of_draft(), context_limit_of_draft);
        return make_speculative<sampler_type, verifier_type>(target, draft, shape)(a.prompt, a.options);
    }
    model target(vocabulary, law_of_target(), 1, context_limit);
    model draft(vocabulary, law_of_draft(), 1, context_limit_of_draft);
    host_threads const threads(1);
    auto loop = make_continuous_batching<sampler_type, verifier_type>(target, draft, threads, fixed_shapes(shape));
    loop.submit(a.prompt, a.options);
    while (loop.step()) {
    }
    return loop.take_finished().at(0).result;
}

inline void expect_as_alone(finished_request const& f, asked const& a, topology const& shape,
                            std::int32_t context_limit_of_draft = 1 << 20) {
    auto const one = alone(a, shape, 1 << 20, context_limit_of_draft);
    EXPECT_EQ(f.error, "");
    EXPECT_EQ(f.result.tokens, one.tokens) << "request " << f.ticket;
    EXPECT_EQ(f.result.reason, one.reason) << "request " << f.ticket;
    EXPECT_EQ(f.result.metrics.accepted, one.metrics.accepted);
    EXPECT_EQ(f.result.metrics.drafted, one.metrics.drafted);
    EXPECT_EQ(f.result.metrics.target_calls, one.metrics.target_calls);
    EXPECT_EQ(f.result.metrics.draft_calls, one.metrics.draft_calls);
    EXPECT_EQ(f.result.metrics.whole_steps.tokens, one.metrics.whole_steps.tokens);
    EXPECT_EQ(f.result.metrics.whole_steps.target_calls, one.metrics.whole_steps.target_calls);
    EXPECT_EQ(f.result.metrics.whole_steps.draft_calls, one.metrics.whole_steps.draft_calls);
    EXPECT_EQ(f.result.metrics.by_depth.tried, one.metrics.by_depth.tried);
    EXPECT_EQ(f.result.metrics.by_rank.accepted, one.metrics.by_rank.accepted);
}

/// `count` requests, at most 32 in flight, submitted and cancelled at any step: each ends once, with the text that it
/// has alone, and the beginning of it where it was cancelled. `every`: so many of the texts are made again alone.
inline void expect_own_texts_under_load(std::size_t count, int host_threads_of_step, std::size_t every) {
    auto const requests = random_requests(count, 5);
    topology const shape = branching({2, 1});
    model target(vocabulary, law_of_target(), 32);
    model draft(vocabulary, law_of_draft(), 32);
    host_threads const threads(host_threads_of_step);
    auto loop =
        make_continuous_batching<sampler_type, verifier_type>(target, draft, threads, fixed_shapes(shape), {16});
    std::mt19937_64 random(9);
    std::map<std::int64_t, bool> cancelled;
    std::vector<finished_request> done;
    std::size_t submitted = 0;
    for (bool more = true; more || submitted < count;) {
        for (auto n = random() % 12; n > 0 && submitted < count; --n, ++submitted)
            loop.submit(requests[submitted].prompt, requests[submitted].options);
        if (submitted > 0 && random() % 3 == 0) {
            auto const ticket = static_cast<std::int64_t>(random() % submitted);
            if (loop.cancel(ticket)) cancelled[ticket] = true;
        }
        more = loop.step();
        for (auto& f : loop.take_finished()) done.push_back(std::move(f));
    }
    ASSERT_EQ(done.size(), count);
    EXPECT_GT(cancelled.size(), 20U);
    std::vector<char> seen(count, 0);
    for (auto const& f : done) {
        auto const k = static_cast<std::size_t>(f.ticket);
        ASSERT_EQ(seen[k]++, 0);
        if (cancelled.contains(f.ticket)) {
            EXPECT_EQ(f.result.reason, stop_reason::callback);
            if (k % every != 0) continue;
            auto const whole = alone(requests[k], shape).tokens;
            ASSERT_LE(f.result.tokens.size(), whole.size());
            EXPECT_TRUE(std::equal(f.result.tokens.begin(), f.result.tokens.end(), whole.begin()));
        } else if (k % every == 0) {
            expect_as_alone(f, requests[k], shape);
        }
    }
    EXPECT_FALSE(loop.cancel(0));
    EXPECT_FALSE(loop.cancel(static_cast<std::int64_t>(count)));
}

}  // namespace MULTIDRAFT_NAMESPACE::testing::many
