// Requests that come and go against the loop of one request: the same texts, whoever the neighbours are.
#include "multidraft/decode/continuous_batching.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "multidraft/base/error.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/control/batch_controller.hpp"
#include "multidraft/tree/shapes.hpp"
#include "support/batched_table_model.hpp"
#include "support/many_requests.hpp"
#include "support/refusal.hpp"
#include "support/table_model.hpp"

namespace MULTIDRAFT_NAMESPACE {
namespace continuous_batching_test {
namespace {

using namespace testing::many;
using testing::refusal;

TEST(continuous_batching, texts_are_those_of_each_request_alone) {
    auto const requests = random_requests(60, 1);
    for (topology const& shape : {branching({3, 1, 1}), branching({2, 2}), topology()}) {
        for (std::int32_t const sequences : {1, 4, 60}) {
            model target(vocabulary, law_of_target(), sequences);
            model draft(vocabulary, law_of_draft(), sequences);
            host_threads const threads(2);
            // Prompts are read five tokens at a time.
            auto loop =
                make_continuous_batching<sampler_type, verifier_type>(target, draft, threads, fixed_shapes(shape), {5});
            for (auto const& a : requests) loop.submit(a.prompt, a.options);
            std::size_t most = 0;
            std::vector<finished_request> done;
            for (bool more = true; more;) {
                more = loop.step();
                most = std::max(most, loop.in_flight());
                for (auto& f : loop.take_finished()) done.push_back(std::move(f));
            }
            ASSERT_EQ(done.size(), requests.size());
            EXPECT_LE(most, static_cast<std::size_t>(sequences));
            for (auto const& f : done) expect_as_alone(f, requests[static_cast<std::size_t>(f.ticket)], shape);
            EXPECT_EQ(loop.waiting(), 0U);
        }
    }
}

TEST(continuous_batching, prompts_are_read_in_pieces_beside_what_is_decoded) {
    model target(vocabulary, law_of_target(), 2);
    model draft(vocabulary, law_of_draft(), 2);
    host_threads const threads(1);
    auto loop =
        make_continuous_batching<sampler_type, verifier_type>(target, draft, threads, fixed_shapes(chain(2)), {8});
    asked first{{1, 2}, {}};
    first.options.max_tokens = 60;
    asked second{std::vector<token_id>(100, 3), {}};
    second.options.max_tokens = 5;
    second.options.request = 1;
    loop.submit(first.prompt, first.options);
    loop.step();
    loop.submit(second.prompt, second.options);
    for (int k = 0; k < 11; ++k) {
        std::size_t const before = target.rows_read;
        loop.step();
        EXPECT_LE(target.rows_read - before, 3U + 1 + 8);  // a tree, and a piece of the prompt
    }
    while (loop.step()) {
    }
    for (auto const& f : loop.take_finished()) expect_as_alone(f, f.ticket == 0 ? first : second, chain(2));
}

TEST(continuous_batching, thousands_come_go_and_are_cancelled) { expect_own_texts_under_load(10'000, 2, 16); }

TEST(continuous_batching, a_callback_gets_the_tokens_and_may_end_its_request) {
    model target(vocabulary, law_of_target(), 2);
    model draft(vocabulary, law_of_draft(), 2);
    host_threads const threads(1);
    auto loop = make_continuous_batching<sampler_type, verifier_type>(target, draft, threads, fixed_shapes(chain(3)));
    std::vector<token_id> got;
    asked a{{4}, {}};
    a.options.max_tokens = 40;
    loop.submit(a.prompt, a.options, [&](std::span<token_id const> more) {
        got.insert(got.end(), more.begin(), more.end());
        return got.size() < 10;
    });
    while (loop.step()) {
    }
    auto const done = loop.take_finished();
    ASSERT_EQ(done.size(), 1U);
    EXPECT_EQ(done[0].result.reason, stop_reason::callback);
    EXPECT_EQ(done[0].result.tokens, got);
    EXPECT_GE(got.size(), 10U);
    EXPECT_LT(got.size(), 14U);
}

TEST(continuous_batching, a_callback_that_throws_ends_its_request_alone) {
    auto const requests = random_requests(5, 9);
    model target(vocabulary, law_of_target(), 3);
    model draft(vocabulary, law_of_draft(), 3);
    host_threads const threads(1);
    auto loop = make_continuous_batching<sampler_type, verifier_type>(target, draft, threads, fixed_shapes(chain(2)));
    for (std::size_t k = 0; k < requests.size(); ++k)
        loop.submit(requests[k].prompt, requests[k].options, [k](std::span<token_id const>) -> bool {
            if (k == 2) throw std::runtime_error("no room");
            if (k == 3) throw 3;
            return true;
        });
    while (loop.step()) {
    }
    auto const done = loop.take_finished();
    ASSERT_EQ(done.size(), requests.size());
    std::int64_t tokens = 0;
    for (auto const& f : done) {
        auto const whole = alone(requests[static_cast<std::size_t>(f.ticket)], chain(2)).tokens;
        tokens += static_cast<std::int64_t>(f.result.tokens.size());
        if (whole.empty()) continue;  // nothing was emitted, so the callback was not called
        if (f.ticket == 2 || f.ticket == 3) {
            EXPECT_EQ(f.error, f.ticket == 2 ? "its callback threw: no room" : "its callback threw");
            EXPECT_LE(f.result.tokens.size(), 3U);
        } else {
            EXPECT_EQ(f.error, "");
            EXPECT_EQ(f.result.tokens, whole);
        }
    }
    EXPECT_EQ(loop.metrics().tokens, tokens);
}

TEST(continuous_batching, a_callback_may_submit_and_cancel_but_not_step) {
    auto requests = random_requests(8, 11);
    for (asked& a : requests) {
        a.options.max_tokens = 20;
        a.options.stop_tokens.clear();
    }
    model target(vocabulary, law_of_target(), 3);
    model draft(vocabulary, law_of_draft(), 3);
    host_threads const threads(1);
    auto loop = make_continuous_batching<sampler_type, verifier_type>(target, draft, threads, fixed_shapes(chain(2)));
    std::int32_t calls = 0;
    std::string refused;
    auto const callback = [&](std::span<token_id const>) {
        switch (++calls) {
            case 1:  // one after it in the step, one that waits, and itself
                for (std::int64_t const other : {2, 5, 0}) EXPECT_TRUE(loop.cancel(other));
                break;
            case 2:
                loop.submit(requests[7].prompt, requests[7].options);
                try {
                    loop.step();
                } catch (invalid_input const& e) {
                    refused = e.what();
                }
                break;
            case 5:  // one before it
                EXPECT_TRUE(loop.cancel(1));
                break;
            default:
                break;
        }
        return true;
    };
    for (std::size_t k = 0; k < 7; ++k) loop.submit(requests[k].prompt, requests[k].options, callback);
    std::vector<finished_request> done;
    for (bool more = true; more;) {
        more = loop.step();
        for (auto& f : loop.take_finished()) done.push_back(std::move(f));
    }
    EXPECT_EQ(refused, "step = out of turn: a callback of a step calls no other one");
    ASSERT_EQ(done.size(), 8U);
    std::vector<char> seen(8, 0);
    for (auto const& f : done) {
        EXPECT_EQ(seen[static_cast<std::size_t>(f.ticket)]++, 0);
        bool const cancelled = f.ticket == 0 || f.ticket == 1 || f.ticket == 2 || f.ticket == 5;
        EXPECT_EQ(f.error, "");
        if (!cancelled) {
            expect_as_alone(f, requests[static_cast<std::size_t>(f.ticket)], chain(2));
            continue;
        }
        EXPECT_EQ(f.result.reason, stop_reason::callback) << f.ticket;
        auto const whole = alone(requests[static_cast<std::size_t>(f.ticket)], chain(2)).tokens;
        ASSERT_LT(f.result.tokens.size(), whole.size());
        EXPECT_TRUE(std::equal(f.result.tokens.begin(), f.result.tokens.end(), whole.begin()));
        EXPECT_EQ(f.result.tokens.empty(), f.ticket == 2 || f.ticket == 5);
    }
    EXPECT_FALSE(loop.step());
}

/// Shapes that break what a chooser promises.
struct wrong_shapes {
    static std::int32_t start() { return 0; }
    static void end(std::int32_t) {}
    static std::int32_t depth() { return 2; }
    std::span<topology const> choose(std::span<batch_situation const> step) {
        shapes.assign(step.size() - (too_few ? 1 : 0), chain(2));
        return shapes;
    }
    static void learn(std::int32_t, step_outcome const&) {}

    bool too_few = false;
    std::vector<topology> shapes;
};

TEST(continuous_batching, shapes_that_the_chooser_must_not_give_are_refused) {
    model target(vocabulary, law_of_target(), 2);
    model draft(vocabulary, law_of_draft(), 2);
    host_threads const threads(1);
    for (bool const too_few : {true, false}) {
        auto loop =
            make_continuous_batching<sampler_type, verifier_type>(target, draft, threads, wrong_shapes{too_few, {}});
        generation_options options;
        options.max_tokens = 2;
        loop.submit(std::vector<token_id>{1, 2}, options);
        EXPECT_EQ(refusal([&] { loop.step(); }), too_few
                                                     ? "shapes.size = 0: the chooser gives one for each of 1 requests"
                                                     : "shapes[0] = 2: the request has room for 1 levels");
    }
}

TEST(continuous_batching, a_request_that_the_model_cannot_go_on_with_ends_alone) {
    auto requests = random_requests(20, 3);
    for (auto& a : requests) {
        std::replace(a.prompt.begin(), a.prompt.end(), 13, 12);
        a.options.sampling = {.temperature = 0.0F};  // token 13 is not drafted outside of the loops' own texts
        a.options.draft_sampling.reset();
        a.options.max_tokens = 20;
        a.options.stop_tokens.clear();
    }
    requests[4].prompt.push_back(13);
    model target(vocabulary, law_of_target(), 6);
    model draft(vocabulary, law_of_draft(), 6);
    target.fails = [](token_id x) { return x == 13; };
    host_threads const threads(1);
    auto loop = make_continuous_batching<sampler_type, verifier_type>(target, draft, threads, fixed_shapes(chain(2)));
    for (auto const& a : requests) loop.submit(a.prompt, a.options);
    while (loop.step()) {
    }
    auto const done = loop.take_finished();
    ASSERT_EQ(done.size(), requests.size());
    int failed = 0;
    for (auto const& f : done) {
        auto const whole = alone(requests[static_cast<std::size_t>(f.ticket)], chain(2)).tokens;
        if (f.ticket == 4) {
            EXPECT_TRUE(f.result.tokens.empty());
        }
        if (f.error.empty()) {
            EXPECT_EQ(f.result.tokens, whole) << f.ticket;
        } else {
            ++failed;
            EXPECT_EQ(f.error, "the model cannot read this token");
            ASSERT_LE(f.result.tokens.size(), whole.size());
            EXPECT_TRUE(std::equal(f.result.tokens.begin(), f.result.tokens.end(), whole.begin()));
        }
    }
    EXPECT_GE(failed, 1);
    EXPECT_LT(failed, 20);
}

TEST(continuous_batching, so_does_a_request_whose_rows_are_no_distributions) {
    auto const breaking = [](testing::conditional const& law) -> testing::conditional {
        return [law](std::span<token_id const> text) {
            return text.size() > 6 && text[0] == 1 ? std::vector<double>(vocabulary, std::nan("")) : law(text);
        };
    };
    for (bool const of_draft : {false, true}) {
        model target(vocabulary, of_draft ? law_of_target() : breaking(law_of_target()), 3);
        model draft(vocabulary, of_draft ? breaking(law_of_draft()) : law_of_draft(), 3);
        host_threads const threads(1);
        auto loop =
            make_continuous_batching<sampler_type, verifier_type>(target, draft, threads, fixed_shapes(chain(2)));
        std::vector<asked> requests(3);
        for (std::size_t k = 0; k < 3; ++k) {
            requests[k].prompt = {static_cast<token_id>(k), 5};
            requests[k].options.max_tokens = 20;
            requests[k].options.request = static_cast<std::uint32_t>(k);
            loop.submit(requests[k].prompt, requests[k].options);
        }
        while (loop.step()) {
        }
        for (auto const& f : loop.take_finished()) {
            if (f.ticket == 1)
                EXPECT_EQ(f.error, of_draft ? "a row of the draft is no distribution"
                                            : "a row of the target is no distribution");
            else
                expect_as_alone(f, requests[static_cast<std::size_t>(f.ticket)], chain(2));
        }
    }
}

TEST(continuous_batching, a_controller_shares_one_budget) {
    step_times const times{analysis::call_cost({{1, 1.0}, {8, 1.1}, {64, 4.0}}),
                           analysis::call_cost({{1, 0.05}, {64, 0.1}}),
                           {{0.001, 0.001}}};
    auto const requests = random_requests(40, 8);
    model target(vocabulary, law_of_target(), 8);
    model draft(vocabulary, law_of_draft(), 8);
    host_threads const threads(1);
    auto loop = make_continuous_batching<sampler_type, verifier_type>(target, draft, threads, batch_controller(times));
    for (auto const& a : requests) loop.submit(a.prompt, a.options);
    while (loop.step()) {
    }
    auto const done = loop.take_finished();
    ASSERT_EQ(done.size(), requests.size());
    for (auto const& f : done) {
        EXPECT_EQ(f.error, "");
        auto const& a = requests[static_cast<std::size_t>(f.ticket)];
        if (f.result.reason == stop_reason::max_tokens) {
            EXPECT_EQ(static_cast<std::int32_t>(f.result.tokens.size()), a.options.max_tokens);
        }
    }
    EXPECT_GT(loop.metrics().drafted, 0);
    EXPECT_GT(loop.metrics().accepted, 0);
}

/// Fixed shapes that count the calls of which they are told.
struct told_of_calls : fixed_shapes {
    using fixed_shapes::fixed_shapes;
    void learn_target_call(std::int32_t rows, double seconds) const {
        EXPECT_GE(seconds, 0);
        *target_rows += rows;
    }
    void learn_draft_call(std::int32_t rows, double seconds) const {
        EXPECT_GE(seconds, 0);
        *draft_rows += rows;
        most_of_draft = std::max(most_of_draft, rows);
    }
    mutable std::int32_t most_of_draft = 0;
    std::int64_t* target_rows = nullptr;
    std::int64_t* draft_rows = nullptr;
};

TEST(continuous_batching, tells_a_chooser_of_the_calls) {
    model target(vocabulary, law_of_target(), 4);
    model draft(vocabulary, law_of_draft(), 4);
    host_threads const threads(1);
    told_of_calls shapes(topology(branching({2, 1})));
    std::int64_t target_rows = 0;
    std::int64_t draft_rows = 0;
    shapes.target_rows = &target_rows;
    shapes.draft_rows = &draft_rows;
    auto loop = make_continuous_batching<sampler_type, verifier_type>(target, draft, threads, shapes);
    for (auto const& a : random_requests(20, 9)) loop.submit(a.prompt, a.options);
    while (loop.step()) {
    }
    // Calls in which prompts are read have other rows: of the draft those are left out that have mostly such.
    EXPECT_LE(loop.shapes().most_of_draft, 4 * 2 * 2);
    EXPECT_GT(target_rows, loop.metrics().drafted / 2);
    EXPECT_GT(draft_rows, loop.metrics().draft_calls);
}

TEST(continuous_batching, texts_end_with_the_context) {
    model target(vocabulary, law_of_target(), 2, 16);
    model draft(vocabulary, law_of_draft(), 2, 16);
    host_threads const threads(1);
    auto loop = make_continuous_batching<sampler_type, verifier_type>(target, draft, threads, fixed_shapes(chain(3)));
    asked a{{1, 2, 3}, {}};
    a.options.max_tokens = 100;
    loop.submit(a.prompt, a.options);
    while (loop.step()) {
    }
    auto const done = loop.take_finished();
    auto const one = alone(a, chain(3), 16, 16);
    EXPECT_EQ(done.at(0).result.tokens, one.tokens);
    EXPECT_EQ(done.at(0).result.reason, stop_reason::context_limit);
}

// The draft drafts as long as it has positions, and does not read a prompt that is longer than its context: however
// many tokens of prompts a step reads, and whoever the neighbours are.
TEST(continuous_batching, goes_on_after_the_context_of_the_draft) {
    constexpr std::int32_t limit = 16;
    std::vector<asked> requests(4);
    for (std::size_t k = 0; k < requests.size(); ++k) {
        requests[k].prompt.assign(std::vector<std::size_t>{10, 40, 16, 17}[k], static_cast<token_id>(k));
        requests[k].options.max_tokens = 20;
        requests[k].options.seed = 7;
        requests[k].options.request = static_cast<std::uint32_t>(k);
    }
    for (std::int32_t const prompt_tokens : {256, 45, 8}) {
        for (bool const together : {false, true}) {
            model target(vocabulary, law_of_target(), 4);
            model draft(vocabulary, law_of_draft(), 4, limit);
            host_threads const threads(1);
            auto loop = make_continuous_batching<sampler_type, verifier_type>(target, draft, threads,
                                                                              fixed_shapes(chain(3)), {prompt_tokens});
            for (auto const& a : requests) {
                loop.submit(a.prompt, a.options);
                while (!together && loop.step()) {
                }
            }
            while (loop.step()) {
            }
            auto const done = loop.take_finished();
            ASSERT_EQ(done.size(), requests.size());
            for (auto const& f : done)
                expect_as_alone(f, requests[static_cast<std::size_t>(f.ticket)], chain(3), limit);
            std::int64_t whole = 0;
            for (auto const& f : done) whole += f.result.metrics.whole_steps.draft_calls;
            EXPECT_EQ(loop.metrics().whole_steps.draft_calls, whole);
            EXPECT_GT(whole, 0);
        }
    }
}

TEST(continuous_batching, refusals) {
    host_threads const threads(1);
    model target(vocabulary, law_of_target(), 2);
    model other(vocabulary + 1, testing::random_conditional(vocabulary + 1, 1), 2);
    model fewer(vocabulary, law_of_draft(), 1);
    model empty(vocabulary, law_of_draft(), 0);
    auto const make = [&](model& t, model& d, batching_options const& o = {}) {
        static_cast<void>(make_continuous_batching<sampler_type, verifier_type>(t, d, threads, fixed_shapes(), o));
    };
    EXPECT_EQ(refusal([&] { make(target, other); }), "draft.vocabulary = 21: the target has 20 tokens");
    EXPECT_EQ(refusal([&] { make(target, fewer); }), "draft.sequences = 1: the target has 2");
    EXPECT_EQ(refusal([&] { make(empty, empty); }), "target.sequences = 0: there is 1 sequence or more");
    EXPECT_EQ(refusal([&] { make(target, target); }),
              "draft = the target: target and draft are two models, each with caches");
    model second(vocabulary, law_of_draft(), 2);
    EXPECT_EQ(refusal([&] { make(target, second, {0}); }),
              "prompt_tokens = 0: a step reads 1 token of a prompt or more");
    auto moved = make_continuous_batching<sampler_type, verifier_type>(target, second, threads);
    auto loop = std::move(moved);
    EXPECT_NE(refusal([&] { loop.submit({}, {}); }).find("prompt.size = 0"), std::string::npos);
    EXPECT_FALSE(loop.step());

    generation_options options;
    options.max_tokens = 4;
    std::vector<token_id> const prompt{1};
    options.observer = [](step_view const&) {};
    EXPECT_EQ(refusal([&] { loop.submit(prompt, options); }),
              "options.observer = a function: steps of many requests are not observed: leave it empty");
    options.observer = {};
    EXPECT_EQ(refusal([&] { moved.submit(prompt, options); }), "submit = out of turn: the loop was moved from");
    loop.submit(prompt, options);
    EXPECT_EQ(refusal([&] { loop.submit(prompt, options); }),
              "options.request = 0: request 0 has not ended and has this number and this seed, so both would get the "
              "same draws");
    options.request = 1;
    loop.submit(prompt, options);  // another number
    options.request = 0;
    options.seed = 5;
    loop.submit(prompt, options);  // another seed
    while (loop.step()) {
    }
    options.seed = generation_options{}.seed;
    loop.submit(prompt, options);  // the first has ended
}

}  // namespace
}  // namespace continuous_batching_test
}  // namespace MULTIDRAFT_NAMESPACE
