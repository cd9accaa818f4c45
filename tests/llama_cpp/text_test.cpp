// Texts of every method over llama.cpp's models: at temperature 0 llama.cpp's own, otherwise of the target's law.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "llama_cpp/api.hpp"
#include "llama_cpp/decoder.hpp"
#include "llama_cpp/methods.hpp"
#include "llama_cpp/text.hpp"
#include "llama_cpp_support.hpp"
#include "multidraft/tree/shape_text.hpp"
#include "support/chi_squared.hpp"

namespace multidraft::examples {
namespace {

decoder_options small_options() {
    decoder_options options;
    options.context = 256;
    options.tree_nodes = 120;
    options.sequences = 64;
    options.flash_attention = 0;
    return options;
}

/// The text that llama.cpp alone writes by its own greedy sampler, one token per call.
std::vector<token_id> greedy_of_llama_cpp(gguf_model const& model, std::vector<token_id> tokens, int count) {
    llama_context_params params = llama_context_default_params();
    params.n_ctx = 512;
    params.n_threads = params.n_threads_batch = 1;
    llama_api::set_flash_attention(params, 0);
    std::unique_ptr<llama_context, decltype(&llama_free)> const context(llama_init_from_model(model.get(), params),
                                                                        &llama_free);
    std::unique_ptr<llama_sampler, decltype(&llama_sampler_free)> const sampler(llama_sampler_init_greedy(),
                                                                                &llama_sampler_free);
    std::vector<token_id> text;
    while (text.size() < static_cast<std::size_t>(count)) {
        EXPECT_EQ(
            llama_decode(context.get(), llama_batch_get_one(tokens.data(), static_cast<std::int32_t>(tokens.size()))),
            0);
        text.push_back(llama_sampler_sample(sampler.get(), context.get(), -1));
        tokens.assign(1, text.back());
    }
    return text;
}

struct texts : ::testing::Test {
    std::shared_ptr<gguf_model const> target_model = std::make_shared<gguf_model const>(model_file("target-f32"));
    std::shared_ptr<gguf_model const> draft_model = std::make_shared<gguf_model const>(model_file("draft-f32"));
    llama_decoder target{target_model, small_options()};
    llama_decoder draft{draft_model, small_options()};
    generation_options options;
};

TEST_F(texts, OfTemperatureZeroAreLlamaCppsOwn) {
    options.max_tokens = 48;
    options.sampling.temperature = 0;
    options.draft_sampling = options.sampling;
    options.draft_sampling->temperature = 0.3F;  // several candidates per node
    for (std::string const prompt : {"And the LORD said unto Moses,", "a person who"}) {
        auto const tokens = tokenize(target_model->vocabulary(), prompt, false);
        auto const greedy = greedy_of_llama_cpp(*target_model, tokens, options.max_tokens);
        for (llama_method const& how : llama_methods()) {
            auto const shape = fitted(how, parse_shape("3x2x1"));
            auto const g = how.run(target, &draft, shape, tokens, options, {});
            EXPECT_EQ(g.tokens, greedy) << how.name;
            if (how.drafts && how.needs_draft) {
                EXPECT_GT(g.metrics.accepted, 0) << how.name;
            }
        }
    }
}

TEST_F(texts, DoNotDependOnWhatWasGeneratedBefore) {
    options.max_tokens = 30;
    options.seed = 11;
    auto const tokens = tokenize(target_model->vocabulary(), "And the LORD said unto Moses,", false);
    auto const& how = find_llama_method("nested_ranked_block/stratified");
    auto const shape = parse_shape("3x2x1");
    auto const first = how.run(target, &draft, shape, tokens, options, {}).tokens;
    auto const& other = find_llama_method("recursive_rejection/best_first");
    static_cast<void>(other.run(target, &draft, parse_shape("4x2x1"), tokens, options, {}));
    EXPECT_EQ(how.run(target, &draft, shape, tokens, options, {}).tokens, first);
}

TEST_F(texts, EndWhereTheContextDoes) {
    decoder_options options_of_target = small_options();
    options_of_target.context = 40;
    llama_decoder short_target(target_model, options_of_target);
    options.max_tokens = 200;
    options.seed = 2;
    auto const tokens = tokenize(target_model->vocabulary(), "And the LORD said unto Moses,", false);
    for (auto const* name : {"autoregressive", "nested_ranked_block/stratified"}) {
        auto const g = find_llama_method(name).run(short_target, &draft, parse_shape("3x2x1"), tokens, options, {});
        EXPECT_EQ(g.reason, stop_reason::context_limit) << name;
        EXPECT_EQ(tokens.size() + g.tokens.size(), 41U) << name;
    }
    EXPECT_THROW(find_llama_method("autoregressive")
                     .run(short_target, &draft, topology(), std::vector<token_id>(41, 5), options, {}),
                 invalid_input);
}

// --- The law ---------------------------------------------------------------------------------------------------------

constexpr int tokens_of_law = 3;
constexpr int kept = 3;  // top-k: 27 texts

/// The probabilities of the `kept` likeliest tokens, from logits, in double.
std::map<token_id, double> law_of(std::span<float const> logits, double temperature) {
    std::vector<token_id> order(logits.size());
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + kept, order.end(), [&](token_id a, token_id b) {
        auto const x = logits[static_cast<std::size_t>(a)];
        auto const y = logits[static_cast<std::size_t>(b)];
        return x > y || (x == y && a < b);
    });
    std::map<token_id, double> law;
    double sum = 0;
    for (std::size_t k = 0; k < kept; ++k) {
        auto const difference = static_cast<double>(logits[static_cast<std::size_t>(order[k])]) -
                                static_cast<double>(logits[static_cast<std::size_t>(order[0])]);
        sum += law[order[k]] = std::exp(difference / temperature);
    }
    for (auto& [token, mass] : law) mass /= sum;
    return law;
}

/// The law of the first tokens after a text, from the model's logits after every possible continuation.
void laws_of_texts(llama_decoder& model, std::vector<token_id> const& text, double temperature, double mass,
                   std::vector<token_id> const& so_far, std::map<std::vector<token_id>, double>& laws) {
    if (so_far.size() == tokens_of_law) {
        laws[so_far] = mass;
        return;
    }
    std::vector<std::int32_t> positions(text.size());
    std::iota(positions.begin(), positions.end(), 0);
    std::vector<float> logits(static_cast<std::size_t>(model.vocabulary()));
    model.keep(0, {});
    model.forward({text, positions, 0, {}}, logits);
    for (auto const& [token, share] : law_of(logits, temperature)) {
        auto longer = text;
        auto emitted = so_far;
        longer.push_back(token);
        emitted.push_back(token);
        laws_of_texts(model, longer, temperature, mass * share, emitted, laws);
    }
}

class llama_laws : public ::testing::TestWithParam<char const*> {};

TEST_P(llama_laws, OfTheFirstTokensIsTheTargets) {
    llama_decoder target(std::make_shared<gguf_model const>(model_file("draft-f32")), small_options());
    llama_decoder draft(std::make_shared<gguf_model const>(model_file("draft-tiny-f32")), small_options());
    auto const tokens = tokenize(target.model().vocabulary(), "And the", false);
    auto const& how = find_llama_method(GetParam());
    auto const shape = fitted(how, parse_shape("2x2"));
    for (float const temperature : {0.7F, 1.0F}) {
        generation_options options;
        options.max_tokens = tokens_of_law;
        options.sampling.temperature = temperature;
        options.sampling.top_k = kept;
        options.draft_sampling = options.sampling;
        options.draft_sampling->top_k = 0;
        std::map<std::vector<token_id>, double> laws;
        laws_of_texts(target, tokens, static_cast<double>(temperature), 1, {}, laws);
        std::map<std::vector<token_id>, token_id> number;
        std::vector<double> law;
        for (auto const& [text, mass] : laws) {
            number[text] = static_cast<token_id>(law.size());
            law.push_back(mass);
        }
        constexpr std::uint64_t runs = 800;
        std::vector<token_id> drawn;
        for (options.seed = 0; options.seed < runs; ++options.seed) {
            auto const g = how.run(target, &draft, shape, tokens, options, {});
            ASSERT_TRUE(number.contains(g.tokens)) << "a text that the target does not write";
            drawn.push_back(number[g.tokens]);
        }
        auto const found = testing::pooled_law(law, static_cast<double>(runs)).test(drawn);
        // A budget of 1e-6 for all of these, beside that of the suite.
        EXPECT_GT(found.p_value(), 1e-6 / 10) << how.name << " at temperature " << temperature << ": "
                                              << found.statistic << " of " << found.freedom << " degrees of freedom";
    }
}

INSTANTIATE_TEST_SUITE_P(methods, llama_laws,
                         ::testing::Values("autoregressive", "nested_ranked_block/stratified",
                                           "recursive_rejection/sequential", "recursive_rejection/best_first",
                                           "speculative_sampling/iid"),
                         [](auto const& one) {
                             std::string name = one.param;
                             std::replace_if(
                                 name.begin(), name.end(), [](char c) { return c == '/'; }, '_');
                             return name;
                         });

// --- Text ------------------------------------------------------------------------------------------------------------

TEST(LlamaText, TokensAreThoseOfTheModelsTokenizer) {
    gguf_model const model(model_file("draft-f32"));
    std::ifstream in(std::string(MULTIDRAFT_MODELS_DIR) + "/reference_logits.json");
    auto const reference = nlohmann::json::parse(in);
    for (auto const& one : reference.at("models").at("draft")) {
        auto const want = one.at("token_ids").get<std::vector<token_id>>();
        auto const text = one.at("prompt").get<std::string>();
        EXPECT_EQ(tokenize(model.vocabulary(), text, false), want);
        EXPECT_EQ(text_of(model.vocabulary(), {want.begin() + 1, want.end()}), " " + text);
    }
    EXPECT_EQ(tokenize(model.vocabulary(), "", false), std::vector<token_id>{1});
    EXPECT_EQ(end_tokens(model.vocabulary()), std::vector<token_id>{2});
    EXPECT_EQ(text_of(model.vocabulary(), tokenize(model.vocabulary(), "日本", false)), " 日本");
}

TEST(LlamaText, VocabulariesAreCompared) {
    gguf_model const target(model_file("target-f32"));
    gguf_model const draft(model_file("draft-q8_0"));
    gguf_model const other(model_file("other_vocabulary"));
    EXPECT_EQ(vocabulary_difference(target.vocabulary(), draft.vocabulary()), std::nullopt);
    auto const difference = vocabulary_difference(target.vocabulary(), other.vocabulary());
    ASSERT_TRUE(difference.has_value());
    EXPECT_NE(difference->find("token 300 "), std::string::npos) << *difference;
}

TEST(LlamaText, ChatTemplates) {
    gguf_model const model(model_file("draft-f32"));
    std::vector<std::pair<std::string, std::string>> const messages{{"system", "Be brief."}, {"user", "Hello"}};
    auto const text = apply_chat_template(model.get(), "chatml", messages);
    EXPECT_EQ(text,
              "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n");
    EXPECT_THROW(static_cast<void>(apply_chat_template(model.get(), "", messages)), std::runtime_error);
    EXPECT_THROW(static_cast<void>(apply_chat_template(model.get(), "no-such-template", messages)), std::runtime_error);
}

TEST(LlamaMethods, Names) {
    EXPECT_EQ(llama_methods().front().name, "autoregressive");
    EXPECT_THROW(static_cast<void>(find_llama_method("nothing")), std::runtime_error);
    for (llama_method const& how : llama_methods()) {
        EXPECT_EQ(&find_llama_method(how.name), &how);
        auto const shape = fitted(how, parse_shape("4x3x1"));
        EXPECT_EQ(fitted(how, shape), shape) << how.name;
        EXPECT_EQ(shape.max_depth(), 3) << how.name;
    }
}

}  // namespace
}  // namespace multidraft::examples
