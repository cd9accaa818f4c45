// The lossy loops: exact for some parameters, and how far from the target otherwise.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "decode/text_laws.hpp"
#include "multidraft/decode/autoregressive.hpp"
#include "multidraft/decode/speculative.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/lossy/joint_decoding.hpp"
#include "multidraft/lossy/joint_likelihood.hpp"
#include "multidraft/lossy/rollback.hpp"
#include "multidraft/lossy/target_initialised.hpp"
#include "multidraft/research/early_stop.hpp"
#include "multidraft/tree/shapes.hpp"
#include "multidraft/verify/naive.hpp"
#include "multidraft/verify/speculative_sampling.hpp"
#include "support/refusal.hpp"
#include "support/table_model.hpp"

namespace multidraft {
namespace lossy_test {
namespace {

using testing::distance;
using testing::law_of_loop;
using testing::loop_law;
using testing::random_conditional;
using testing::refusal;
using testing::table_model;
using testing::true_law;

constexpr std::int32_t vocabulary = 3;
using model = table_model<double>;
using chain_drafter = static_tree_drafter<model, draft::iid, lossy::fallback_rule>;
using rollback = lossy::rollback<law::iid>;

struct tables {
    testing::conditional p = random_conditional(vocabulary, 11);
    testing::conditional q = random_conditional(vocabulary, 12);
    model target{vocabulary, p};
    model draft{vocabulary, q};
    std::vector<token_id> prompt{1, 2};

    template <class Loop>
    loop_law law(Loop loop, int tokens, sampling_params const& w = {}) {
        generation_options options;
        options.max_tokens = tokens;
        options.sampling = w;
        auto result = law_of_loop(loop, prompt, options, [&](generation const& g) {
            ASSERT_EQ(static_cast<int>(g.tokens.size()), tokens);
            ASSERT_LE(draft.length(), target.length());
        });
        EXPECT_NEAR(result.total, 1.0, 1e-12);
        return result;
    }
    [[nodiscard]] double distance_of(loop_law const& law, int tokens, sampling_params const& w = {}) const {
        return distance(law.law, true_law(p, vocabulary, prompt, tokens, w));
    }
};

TEST(TargetStart, IsExactWithOneTokenAndLossyWithMore) {
    tables t;
    for (sampling_params const& w :
         {sampling_params{}, sampling_params{.temperature = 0.7F}, sampling_params{.temperature = 0}}) {
        for (std::int32_t const depth : {0, 1, 2}) {
            auto const one = t.law(lossy::target_initialised_decoding(t.target, t.draft, 1, depth), 4, w);
            EXPECT_LT(t.distance_of(one, 4, w), 1e-12);
        }
        auto const flat = t.law(lossy::target_initialised_decoding(t.target, t.draft, 2, 0), 3, w);
        EXPECT_LT(t.distance_of(flat, 3, w), 1e-12) << "without a draft below them the first token wins";
    }
    auto const two = t.law(lossy::target_initialised_decoding(t.target, t.draft, 2, 1), 3);
    EXPECT_GT(t.distance_of(two, 3), 0.01);
    RecordProperty("total_variation", std::to_string(t.distance_of(two, 3)));
}

// The paper's depth is that of the chains below the starts: a draft that is the target has all of them accepted.
TEST(TargetStart, DraftsAsManyLevelsBelowTheStartsAsItsDepth) {
    tables t;
    model same{vocabulary, t.p};
    for (sampling_params const& w : {sampling_params{}, sampling_params{.temperature = 0}}) {
        for (std::int32_t const depth : {1, 2, 5}) {
            for (std::int32_t const width : {1, 2}) {
                generation_options options;
                options.sampling = w;
                options.max_tokens = 4 * (depth + 1);
                options.seed = 7;
                auto const g = lossy::target_initialised_decoding(t.target, same, width, depth)(t.prompt, options);
                EXPECT_EQ(g.metrics.target_calls, 4) << "each emits a start and its chain";
                EXPECT_EQ(g.metrics.accepted_fraction(depth), 1.0) << "width " << width << ", depth " << depth;
                EXPECT_EQ(g.metrics.block_efficiency(), depth + 1.0);
                EXPECT_EQ(g.metrics.drafted, 4 * width * (depth + 1));
            }
        }
    }
    EXPECT_THROW(lossy::target_initialised_decoding(t.target, same, 1, -1), invalid_input);
    EXPECT_THROW(lossy::target_initialised_decoding(t.target, same, 0, 1), invalid_input);
}

/// A table model whose hidden state is the input token and its position.
template <class Logit>
class open_model : public table_model<Logit> {
public:
    using table_model<Logit>::table_model;

    void forward(token_batch const& batch, std::span<Logit> logits) {
        table_model<Logit>::forward(batch, logits);
        hidden_.clear();
        auto const rows = logits.size() / static_cast<std::size_t>(this->vocabulary());
        for (std::size_t i = batch.tokens.size() - rows; i < batch.tokens.size(); ++i) {
            hidden_.push_back(static_cast<float>(batch.tokens[i]));
            hidden_.push_back(static_cast<float>(batch.positions[i]));
        }
    }
    [[nodiscard]] std::int32_t hidden_size() const { return 2; }
    [[nodiscard]] std::span<float const> hidden_states() const { return hidden_; }

private:
    std::vector<float> hidden_;
};

// The whole method of the paper. The table model refuses a mask that is not that of the tree.
TEST(TargetStart, EndsItsChainsByADecisionModel) {
    auto const one_layer = [](std::vector<float> weights, float bias) {
        auto const n = static_cast<std::int32_t>(weights.size());
        return perceptron({{n, 1, std::move(weights), {bias}}});
    };
    auto const p = random_conditional(50, 1, 2, 0, 2.0);
    auto const q = random_conditional(50, 1, 1, 0, 2.0);
    table_model<float> target(50, p);
    open_model<float> draft(50, q);
    std::vector<token_id> const prompt{3, 1, 4};
    generation_options options;
    options.max_tokens = 60;
    for (float const temperature : {0.0F, 1.0F}) {
        options.sampling.temperature = temperature;
        for (auto const& [width, depth] : {std::pair{1, 4}, std::pair{4, 5}}) {
            options.seed = 3;
            auto const plain = lossy::target_initialised_decoding(target, draft, width, depth)(prompt, options);
            // Never: the same text, tree and draws.
            auto const never = lossy::target_initialised_decoding(
                target, draft, width, depth, probability_stop(one_layer({0, 0}, 9.0F)))(prompt, options);
            EXPECT_EQ(never.tokens, plain.tokens);
            EXPECT_EQ(never.metrics.drafted, plain.metrics.drafted);
            // Always: the starts and one level below them, for which the rule is not evaluated.
            auto const always = lossy::target_initialised_decoding(
                target, draft, width, depth, probability_stop(one_layer({0, 0}, -9.0F)))(prompt, options);
            auto const short_one = lossy::target_initialised_decoding(target, draft, width, 1)(prompt, options);
            EXPECT_EQ(always.tokens, short_one.tokens);
            EXPECT_EQ(always.metrics.drafted, short_one.metrics.drafted);
            // Sometimes, by the tokens that were drawn: longer trees than always, shorter than never, of any length.
            auto const some = lossy::target_initialised_decoding(
                target, draft, width, depth, hidden_state_stop(one_layer({1, 0}, -35.0F), 0.5))(prompt, options);
            EXPECT_EQ(some.tokens.size(), 60U);
            EXPECT_LT(some.metrics.drafted * plain.metrics.target_calls,
                      plain.metrics.drafted * some.metrics.target_calls);
            EXPECT_GT(some.metrics.drafted, 2 * width * some.metrics.target_calls - 2 * width);
            std::int64_t won = 0;
            for (std::size_t start = 0; start < some.metrics.by_start.won.size(); ++start) {
                won += some.metrics.by_start.won[start];
                EXPECT_LE(some.metrics.by_start.accepted[start], depth * some.metrics.whole_steps.target_calls);
            }
            EXPECT_EQ(won, some.metrics.whole_steps.target_calls) << "one path wins each step";
        }
    }
    // With one start it keeps the law, whatever the rule depends on.
    tables t;
    open_model<double> small(vocabulary, t.q);
    for (float const bias : {-1.5F, -0.5F}) {
        auto const law = t.law(
            lossy::target_initialised_decoding(t.target, small, 1, 2, hidden_state_stop(one_layer({1, 0}, bias), 0.5)),
            4);
        EXPECT_LT(t.distance_of(law, 4), 1e-12);
    }
}

TEST(Rollback, IsLossyBetweenItsEnds) {
    tables t;
    auto const loop = [&](float threshold, double fallback) {
        return make_speculative<rollback>(
            t.target, chain_drafter(t.draft, chain(2), {}, lossy::fallback_rule(fallback)), rollback(threshold));
    };
    EXPECT_LT(t.distance_of(t.law(loop(0, 0), 3), 3), 1e-12) << "nothing is kept";
    EXPECT_LT(t.distance_of(t.law(loop(1e6F, 1), 3), 3), 1e-12) << "nothing is drafted";
    auto const all = t.law(loop(1e6F, 0), 3);
    EXPECT_GT(t.distance_of(all, 3), 0.01);
    EXPECT_NEAR(all.calls, 1, 1e-12) << "everything is kept";
    auto const some = t.law(loop(1.0F, 0.4), 3);
    EXPECT_GT(t.distance_of(some, 3), 1e-3);
    EXPECT_LT(some.calls, 3);
    sampling_params const cold{.temperature = 0};
    EXPECT_LT(t.distance_of(t.law(loop(3.0F, 0.0), 3, cold), 3, cold), 1e-12) << "the greedy text all the same";
}

TEST(FallbackRule, IsHarmlessWithALosslessVerifier) {
    tables t;
    for (double const threshold : {0.3, 0.5, 0.7}) {
        auto loop = make_speculative<verify::speculative_sampling<law::iid>>(
            t.target, chain_drafter(t.draft, chain(3), {}, lossy::fallback_rule(threshold)));
        EXPECT_LT(t.distance_of(t.law(loop, 4), 4), 1e-12) << threshold;
    }
}

TEST(JointDecoding, IsSamplingWithOneBeamAndLikelierTextWithMore) {
    tables t;
    for (std::int32_t const length : {1, 2, 3})
        EXPECT_LT(t.distance_of(t.law(lossy::joint_decoding(t.target, 1, length), 3), 3), 1e-12);
    auto const mean_log = [&](loop_law const& law) {
        auto const truth = true_law(t.p, vocabulary, t.prompt, 3, {});
        double sum = 0;
        for (auto const& [text, chance] : law.law) sum += chance * std::log(truth.at(text));
        return sum;
    };
    auto const one = t.law(lossy::joint_decoding(t.target, 1, 3), 3);
    auto const two = t.law(lossy::joint_decoding(t.target, 2, 3), 3);
    EXPECT_GT(mean_log(two), mean_log(one) + 0.05);
    EXPECT_GT(t.distance_of(two, 3), 0.05);
}

TEST(BeamSamplingDrafter, IsHarmlessWithNaiveVerification) {
    tables t;
    for (std::int32_t const width : {1, 2}) {
        auto loop = make_speculative<verify::naive<law::deterministic>>(
            t.target, lossy::beam_sampling_drafter<model>(t.draft, width, 2));
        auto const result = t.law(loop, 3);
        EXPECT_LT(t.distance_of(result, 3), 1e-12) << width;
        EXPECT_LT(result.calls, 3);
    }
}

TEST(LossyLoops, TemperatureZero) {
    constexpr std::int32_t size = 50;
    table_model<float> target(size, random_conditional(size, 1, 2, 0, 2.0));
    table_model<float> draft(size, random_conditional(size, 1, 1, 0, 2.0));
    std::vector<token_id> const prompt{3, 1, 4};
    generation_options options;
    options.max_tokens = 60;
    options.sampling.temperature = 0;
    auto const greedy = autoregressive(target, prompt, options).tokens;
    EXPECT_EQ(lossy::target_initialised_decoding(target, draft, 1, 4)(prompt, options).tokens, greedy);
    auto const other = lossy::target_initialised_decoding(target, draft, 4, 4)(prompt, options);
    EXPECT_NE(other.tokens, greedy) << "the longest path wins, whatever it starts with";
    EXPECT_EQ(other.tokens.size(), 60U);
    EXPECT_EQ(lossy::joint_decoding(target, 4, 1)(prompt, options).tokens, greedy);
    auto const log_likelihood = [&](std::vector<token_id> const& tokens) {
        auto const p = random_conditional(size, 1, 2, 0, 2.0);
        std::vector<token_id> text = prompt;
        double sum = 0;
        for (token_id const x : tokens) {
            sum += std::log(p(text)[static_cast<std::size_t>(x)]);
            text.push_back(x);
        }
        return sum;
    };
    auto const joint = lossy::joint_decoding(target, 8, 4)(prompt, options).tokens;
    EXPECT_GT(log_likelihood(joint), log_likelihood(greedy))
        << "as in [MTAD] figure 1; not of every model: tests/research/joint_likelihood_test.cpp";
    auto loop = make_speculative<lossy::joint_likelihood<law::deterministic>>(
        target, lossy::beam_sampling_drafter(draft, 4, 4));
    EXPECT_EQ(loop(prompt, options).tokens.size(), 60U);
}

TEST(LossyLoops, EndAtTheContext) {
    auto const p = random_conditional(50, 1, 2, 0, 2.0);
    generation_options options;
    options.max_tokens = 100;
    std::vector<token_id> const prompt{1, 2, 3};
    for (std::int32_t const limit : {3, 4, 7, 20}) {
        table_model<float> target(50, p, limit);
        for (std::int32_t const draft_limit : {2, 5, 40}) {
            table_model<float> draft(50, p, draft_limit);
            auto const a = lossy::target_initialised_decoding(target, draft, 2, 3)(prompt, options);
            EXPECT_EQ(a.reason, stop_reason::context_limit);
            EXPECT_EQ(static_cast<std::int32_t>(a.tokens.size()), limit - 2);
        }
        auto const b = lossy::joint_decoding(target, 3, 4)(prompt, options);
        EXPECT_EQ(b.reason, stop_reason::context_limit);
        EXPECT_EQ(static_cast<std::int32_t>(b.tokens.size()), limit - 2);
    }
}

TEST(LossyLoops, BadInputIsNamed) {
    tables t;
    EXPECT_NE(refusal([&] { lossy::target_initialised_decoding(t.target, t.draft, 0, 2); }).find("width = 0"),
              std::string::npos);
    EXPECT_NE(refusal([&] { lossy::target_initialised_decoding(t.target, t.draft, 2, -1); }).find("depth = -1"),
              std::string::npos);
    EXPECT_NE(refusal([&] { lossy::target_initialised_decoding(t.target, t.target, 2, 1); }).find("draft = the target"),
              std::string::npos);
    EXPECT_NE(refusal([&] {
                  lossy::target_initialised_decoding(t.target, t.draft, 4096, 4096);
              }).find("width = 4096: the draft would read more than 2^16 nodes"),
              std::string::npos);
    EXPECT_NE(refusal([&] {
                  lossy::joint_decoding(t.target, 4096, 4096);
              }).find("width = 4096: the draft would read more than 2^16 nodes"),
              std::string::npos);
    EXPECT_NE(refusal([&] { lossy::joint_decoding(t.target, 0, 2); }).find("width = 0"), std::string::npos);
    EXPECT_NE(refusal([&] { lossy::joint_decoding(t.target, 2, 0); }).find("length = 0"), std::string::npos);
    EXPECT_NE(refusal([] { lossy::fallback_rule(1.5); }).find("threshold = 1.5"), std::string::npos);
    EXPECT_NE(refusal([] { lossy::fallback_rule(-0.1); }).find("threshold = -0.1"), std::string::npos);
    EXPECT_NE(refusal([] { rollback(-1.0F); }).find("threshold = -1"), std::string::npos);
    EXPECT_NE(refusal([] { rollback(std::nanf("")); }).find("threshold = "), std::string::npos);
}

}  // namespace
}  // namespace lossy_test
}  // namespace multidraft
