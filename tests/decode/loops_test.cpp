// The decoding loops: temperature 0, seeds, ends of texts, errors, counts.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "multidraft/decode/autoregressive.hpp"
#include "multidraft/decode/best_first_drafter.hpp"
#include "multidraft/decode/independent_drafter.hpp"
#include "multidraft/decode/lookup_drafter.hpp"
#include "multidraft/decode/speculative.hpp"
#include "multidraft/draft/gumbel_top_k.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/top_n.hpp"
#include "multidraft/tree/shapes.hpp"
#include "multidraft/verify/multi_path_block.hpp"
#include "multidraft/verify/naive.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/speculative_sampling.hpp"
#include "support/refusal.hpp"
#include "support/table_model.hpp"

namespace multidraft {
namespace loops_test {
namespace {

using testing::random_conditional;
using testing::refusal;
using testing::table_model;

constexpr std::int32_t vocabulary = 50;

struct models {
    table_model<float> target{vocabulary, random_conditional(vocabulary, 1, 2, 0, 2.0)};
    table_model<float> draft{vocabulary, random_conditional(vocabulary, 1, 1, 0, 2.0)};
    std::vector<token_id> prompt{3, 1, 4, 1, 5};
};

template <class Sampler, class Verifier>
generation run(models& m, topology const& shape, generation_options const& options, token_callback const& f = {}) {
    return make_speculative<Sampler, Verifier>(m.target, m.draft, shape)(m.prompt, options, f);
}

using best_sampler = draft::sequential;
using best_verifier = verify::recursive_rejection<law::sequential>;

TEST(Loops, TemperatureZeroGivesTheGreedyTextWithEveryLosslessPair) {
    models m;
    generation_options options;
    options.max_tokens = 40;
    options.sampling.temperature = 0;
    auto const greedy = autoregressive(m.target, m.prompt, options).tokens;
    ASSERT_EQ(greedy.size(), 40U);
    for (auto const& shape : {chain(1), chain(4), branching({4, 2, 2, 1}), branching({3}), branching({2, 2, 2})}) {
        EXPECT_EQ((run<draft::iid, verify::recursive_rejection<law::iid>>(m, shape, options).tokens), greedy);
        EXPECT_EQ((run<draft::sequential, verify::recursive_rejection<law::sequential>>(m, shape, options).tokens),
                  greedy);
        EXPECT_EQ((run<draft::gumbel_top_k, verify::recursive_rejection<law::sequential>>(m, shape, options).tokens),
                  greedy);
        EXPECT_EQ((run<draft::top_n, verify::naive<law::deterministic>>(m, shape, options).tokens), greedy);
        EXPECT_EQ((run<draft::iid, verify::naive<law::iid>>(m, shape, options).tokens), greedy);
    }
    EXPECT_EQ((run<draft::iid, verify::speculative_sampling<law::iid>>(m, chain(5), options).tokens), greedy);
}

TEST(Loops, AShapeThatTheVerifierDoesNotTakeIsRefusedAtOnce) {
    models m;
    auto const made = [&]<class Verifier>(Verifier, topology const& shape) {
        return refusal([&] { static_cast<void>(make_speculative<draft::iid, Verifier>(m.target, m.draft, shape)); });
    };
    EXPECT_EQ(made(verify::speculative_sampling<law::iid>{}, branching({1, 2, 1})),
              "shape[3] = 1: the verifier takes trees of one child per node");
    EXPECT_EQ(made(verify::multi_path_block{}, branching({2, 2})),
              "shape[4] = 1: the verifier takes trees of paths of one length that branch at the root alone");
    EXPECT_EQ(made(verify::multi_path_block{}, branching({3, 1})), "nothing was thrown");
}

/// A model that exposes its logits in its own memory, and overwrites them at the next call.
class showing_model {
public:
    explicit showing_model(table_model<float>& model) : model_(model) {}
    [[nodiscard]] std::int32_t vocabulary() const { return model_.vocabulary(); }
    [[nodiscard]] std::int32_t context_limit() const { return model_.context_limit(); }
    [[nodiscard]] std::int32_t length() const { return model_.length(); }
    void forward(token_batch const& batch, std::span<float> logits) {
        EXPECT_TRUE(logits.empty()) << "only a prompt is read without its logits";
        model_.forward(batch, logits);
    }
    [[nodiscard]] std::span<float const> forward_in_place(token_batch const& batch, std::int32_t rows) {
        std::fill(logits_.begin(), logits_.end(), std::numeric_limits<float>::quiet_NaN());
        logits_ = std::vector<float>(static_cast<std::size_t>(rows) * static_cast<std::size_t>(vocabulary()));
        model_.forward(batch, logits_);
        return logits_;
    }
    void keep(std::int32_t context, std::span<std::int32_t const> entries) { model_.keep(context, entries); }

private:
    table_model<float>& model_;
    std::vector<float> logits_;
};
static_assert(language_model<showing_model> && exposes_logits_in_place<showing_model>);
static_assert(!exposes_logits_in_place<table_model<float>>);

TEST(Loops, LogitsAreReadWhereTheModelShowsThem) {
    models m;
    showing_model target(m.target);
    generation_options options;
    options.max_tokens = 40;
    options.seed = 7;
    auto const text = autoregressive(m.target, m.prompt, options).tokens;
    EXPECT_EQ(autoregressive(target, m.prompt, options).tokens, text);
    for (auto const& shape : {chain(0), chain(3), branching({4, 2, 2, 1})}) {
        auto const copied = run<best_sampler, best_verifier>(m, shape, options);
        auto const shown = make_speculative<best_sampler, best_verifier>(target, m.draft, shape)(m.prompt, options);
        EXPECT_EQ(shown.tokens, copied.tokens);
        EXPECT_EQ(shown.metrics.target_calls, copied.metrics.target_calls);
    }
}

TEST(Loops, SeedsAndRequests) {
    models m;
    generation_options options;
    options.max_tokens = 30;
    options.seed = 7;
    auto const a = run<best_sampler, best_verifier>(m, branching({4, 2, 1}), options).tokens;
    auto const b = run<best_sampler, best_verifier>(m, branching({4, 2, 1}), options).tokens;
    EXPECT_EQ(a, b);
    options.request = 1;
    EXPECT_NE(a, (run<best_sampler, best_verifier>(m, branching({4, 2, 1}), options).tokens));
    options.request = 0;
    options.seed = 8;
    EXPECT_NE(a, (run<best_sampler, best_verifier>(m, branching({4, 2, 1}), options).tokens));
}

TEST(Loops, Counts) {
    models m;
    generation_options options;
    options.max_tokens = 33;
    std::int64_t streamed = 0;
    auto const r = run<best_sampler, best_verifier>(m, branching({4, 2, 1}), options, [&](std::span<token_id const> t) {
        streamed += static_cast<std::int64_t>(t.size());
        return true;
    });
    EXPECT_EQ(r.tokens.size(), 33U);
    EXPECT_EQ(r.reason, stop_reason::max_tokens);
    EXPECT_EQ(r.metrics.tokens, 33);
    EXPECT_EQ(streamed, 33);
    EXPECT_EQ(m.target.calls, r.metrics.target_calls + 1) << "the prompt is one more call";
    EXPECT_EQ(m.draft.calls, r.metrics.draft_calls + 1);
    EXPECT_GT(r.metrics.block_efficiency(), 1.0);
    EXPECT_LE(r.metrics.block_efficiency(), 4.0);
    EXPECT_GT(r.metrics.acceptance_rate(), 0.0);
    EXPECT_LE(r.metrics.acceptance_rate(), 1.0);
    ASSERT_EQ(r.metrics.by_depth.tried.size(), 3U);
    for (std::size_t d = 1; d < 3; ++d) EXPECT_LE(r.metrics.by_depth.tried[d], r.metrics.by_depth.accepted[d - 1]);
    auto const one = autoregressive(m.target, m.prompt, options);
    EXPECT_EQ(one.metrics.block_efficiency(), 1.0);
    EXPECT_EQ(one.metrics.tokens, 33);
}

TEST(Loops, StopTokenEndsTheText) {
    models m;
    generation_options options;
    options.max_tokens = 60;
    options.sampling.temperature = 0;
    auto const greedy = autoregressive(m.target, m.prompt, options).tokens;
    options.stop_tokens = {greedy[17]};
    auto const a = autoregressive(m.target, m.prompt, options);
    auto const b = run<best_sampler, best_verifier>(m, branching({4, 2, 1}), options);
    EXPECT_EQ(a.reason, stop_reason::stop_token);
    EXPECT_EQ(b.reason, stop_reason::stop_token);
    EXPECT_EQ(a.tokens, b.tokens);
    EXPECT_EQ(a.tokens.back(), greedy[17]);
    EXPECT_LE(a.tokens.size(), 18U);
}

TEST(Loops, ContextLimitEndsTheTextAlike) {
    auto const p = random_conditional(vocabulary, 1, 2, 0, 2.0);
    generation_options options;
    options.max_tokens = 100;
    options.sampling.temperature = 0;
    std::vector<token_id> const prompt{1, 2, 3};
    table_model<float> target(vocabulary, p, 20);
    auto const a = autoregressive(target, prompt, options);
    EXPECT_EQ(a.reason, stop_reason::context_limit);
    EXPECT_EQ(a.tokens.size(), 18U) << "20 positions hold 3 + 17 tokens, and one more is predicted";
    for (std::int32_t draft_limit : {2, 3, 7, 20, 40}) {
        table_model<float> draft(vocabulary, p, draft_limit);
        auto const b =
            make_speculative<best_sampler, best_verifier>(target, draft, branching({2, 2, 1}))(prompt, options);
        EXPECT_EQ(b.tokens, a.tokens) << draft_limit;
        EXPECT_EQ(b.reason, stop_reason::context_limit);
    }
}

TEST(Loops, CallbackEndsTheText) {
    models m;
    generation_options options;
    options.max_tokens = 60;
    auto const r = run<best_sampler, best_verifier>(m, branching({2, 1}), options,
                                                    [](std::span<token_id const>) { return false; });
    EXPECT_EQ(r.reason, stop_reason::callback);
    EXPECT_LE(r.tokens.size(), 3U);
}

TEST(Loops, ACallbackRunsNoOtherText) {
    models m;
    generation_options options;
    options.max_tokens = 10;
    auto loop = make_speculative<best_sampler, best_verifier>(m.target, m.draft, chain(2));
    auto const expected = loop(m.prompt, options).tokens;
    std::string message;
    auto const found = loop(m.prompt, options, [&](std::span<token_id const>) {
        message = refusal([&] { loop(m.prompt, options); });
        return true;
    });
    EXPECT_EQ(message, "loop = out of turn: it generates a text: a callback of it runs no other one");
    EXPECT_EQ(found.tokens, expected);
    EXPECT_THROW(loop(m.prompt, options, [](std::span<token_id const>) -> bool { throw std::runtime_error(""); }),
                 std::runtime_error);
    EXPECT_EQ(loop(m.prompt, options).tokens, expected);
}

TEST(Loops, TargetAndDraftAreTwoModels) {
    models m;
    std::string const expected = "drafter = the target: target and draft are two models, each with a cache";
    EXPECT_EQ(refusal([&] { (void)make_speculative<best_sampler, best_verifier>(m.target, m.target, chain(1)); }),
              expected);
    using several = independent_drafter<table_model<float>>;
    EXPECT_EQ(refusal([&] {
                  (void)make_speculative<verify::naive<law::independent>>(
                      m.target, several({&m.draft, &m.target}, branching({2})));
              }),
              expected);
    EXPECT_EQ(refusal([&] {
                  (void)make_speculative<verify::naive<law::deterministic>>(
                      m.target, with_lookup(best_first_top_drafter(m.target)));
              }),
              expected);
}

TEST(Loops, NothingToDo) {
    models m;
    generation_options options;
    options.max_tokens = 0;
    EXPECT_TRUE((run<best_sampler, best_verifier>(m, chain(2), options).tokens.empty()));
    EXPECT_TRUE(autoregressive(m.target, m.prompt, options).tokens.empty());
    options.max_tokens = 1;
    EXPECT_EQ((run<best_sampler, best_verifier>(m, chain(2), options).tokens.size()), 1U);
}

TEST(Loops, BadInputIsNamed) {
    models m;
    generation_options options;
    auto const go = [&] { run<best_sampler, best_verifier>(m, chain(2), options); };
    m.prompt = {};
    EXPECT_NE(refusal(go).find("prompt.size = 0"), std::string::npos);
    m.prompt = {1, 50};
    EXPECT_NE(refusal(go).find("prompt[1] = 50"), std::string::npos);
    m.prompt = {1};
    options.max_tokens = -1;
    EXPECT_NE(refusal(go).find("max_tokens = -1"), std::string::npos);
    options.max_tokens = 3;
    options.sampling.top_p = 0;
    EXPECT_NE(refusal(go).find("top_p = 0"), std::string::npos);
    options.sampling.top_p = 1;
    options.draft_sampling = sampling_params{.top_k = -1};
    EXPECT_EQ(refusal(go).find("draft_sampling.top_k = -1"), 0U);
    options.draft_sampling.reset();
    options.stop_tokens = {-3};
    EXPECT_NE(refusal(go).find("stop_tokens[0] = -3"), std::string::npos);
    table_model<float> other(vocabulary + 1, random_conditional(vocabulary + 1, 1));
    EXPECT_NE(refusal([&] {
                  (void)make_speculative<best_sampler, best_verifier>(m.target, other, chain(1));
              }).find("draft.vocabulary = 51"),
              std::string::npos);
}

TEST(Loops, RowsOfNanAreRefused) {
    auto const nan = [](std::span<token_id const>) {
        return std::vector<double>(vocabulary, std::numeric_limits<double>::quiet_NaN());
    };
    table_model<float> bad(vocabulary, nan);
    models m;
    generation_options options;
    EXPECT_NE(refusal([&] { autoregressive(bad, m.prompt, options); }).find("target logits[0]"), std::string::npos);
    EXPECT_NE(refusal([&] {
                  make_speculative<best_sampler, best_verifier>(m.target, bad, chain(1))(m.prompt, options);
              }).find("draft logits[0]"),
              std::string::npos);
    options.sampling.temperature = 0;
    EXPECT_NE(refusal([&] { autoregressive(bad, m.prompt, options); }).find("target logits[0]"), std::string::npos);
}

}  // namespace
}  // namespace loops_test
}  // namespace multidraft
