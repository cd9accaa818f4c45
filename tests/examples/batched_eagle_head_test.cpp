// A head of EAGLE-3 for many texts: the texts of a loop over one request, whatever its neighbours are.
#include "transformer/batched_eagle_head.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "examples/model_support.hpp"
#include "examples/several_requests.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/batch/step_inputs.hpp"
#include "multidraft/control/batch_controller.hpp"
#include "multidraft/decode/batched_language_model.hpp"
#include "multidraft/decode/continuous_batching.hpp"
#include "multidraft/decode/speculative.hpp"
#include "multidraft/decode/static_tree_drafter.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/tree/shapes.hpp"
#include "multidraft/verify/nested_ranked_block.hpp"
#include "transformer/batched_transformer.hpp"
#include "transformer/eagle_head.hpp"
#include "transformer/transformer.hpp"

namespace multidraft::examples {
namespace batched_eagle_head_test {
namespace {

namespace fs = std::filesystem;
using multidraft::testing::message_of;
using multidraft::testing::options_for;
using multidraft::testing::options_of_request;
using multidraft::testing::some_tokens;

using sampler_type = draft::stratified;
using verifier_type = verify::nested_ranked_block<law::stratified>;

/// A target and a head of it, loaded.
struct pair_of_models {
    pair_of_models(fs::path const& target, fs::path const& head, transformer_options const& options)
        : of_target(std::make_shared<transformer_weights const>(target, options)),
          weights(std::make_shared<eagle_head_weights const>(head, of_target, options)) {}

    std::shared_ptr<transformer_weights const> of_target;
    std::shared_ptr<eagle_head_weights const> weights;
};

/// What models/train/check_eagle_head.py wrote.
pair_of_models tiny(std::string const& name) {
    fs::path const written = fs::path(MULTIDRAFT_DATA_DIR) / "eagle_head";
    return {written / "target", written / name, options_for(precision::f32)};
}
pair_of_models shipped(int threads) {
    transformer_options options;
    options.threads = threads;
    fs::path const models(MULTIDRAFT_MODELS_DIR);
    return {models / "target", models / "eagle-head", options};
}

void expect_texts_of_each_alone(pair_of_models const& of, std::vector<std::vector<token_id>> const& prompts,
                                std::vector<topology> const& shapes, std::int64_t accepted_at_least) {
    for (topology const& shape : shapes) {
        batched_eagle_head draft(of.weights, 3);
        eagle_head_model head(of.weights);
        EXPECT_GT((multidraft::testing::expect_texts_of_each_alone<sampler_type, verifier_type>(
                      of.of_target, of.weights->target_layers(), draft, prompts, shape,
                      [&](transformer& target, auto const& prompt, auto const& options) {
                          static_tree_drafter<eagle_head_model, sampler_type> drafter(head, shape);
                          return make_speculative<verifier_type>(target, std::move(drafter))(prompt, options);
                      })),
                  accepted_at_least);
    }
}

TEST(batched_eagle_head, texts_are_those_of_each_request_alone) {
    expect_texts_of_each_alone(shipped(2), multidraft::testing::several_prompts(), {branching({2, 2, 1}), chain(4)},
                               20);
}

TEST(batched_eagle_head, so_are_those_of_published_layouts_and_of_texts_that_leave_their_context) {
    std::vector<std::vector<token_id>> prompts;
    for (std::size_t const length : {1U, 2U, 7U, 30U, 90U, 96U}) {
        auto tokens = some_tokens(length, static_cast<unsigned>(length));
        for (token_id& t : tokens) t %= 32;
        prompts.push_back(tokens);
    }
    for (char const* const name : {"published", "trained", "wider"})
        expect_texts_of_each_alone(tiny(name), prompts, {branching({3, 2, 1}), chain(3)}, 5);
}

TEST(batched_eagle_head, trees_may_share_a_budget) {
    // Requests without a tree in a step are not read by the head, which then has more to read in a later one.
    auto const of = shipped(2);
    auto const prompts = multidraft::testing::several_prompts();
    batched_transformer target(of.of_target, 4);
    target.expose_features(of.weights->target_layers());
    batched_eagle_head draft(of.weights, 4);
    host_threads const threads(2);
    library_cost const library{.step = 1e-6, .inner = 1e-6};
    step_times const times{.target = analysis::call_cost({{1, 1e-3}, {64, 3e-3}}),
                           .draft = analysis::call_cost({{1, 1e-4}, {64, 3e-4}}),
                           .library = {library}};
    batch_controller_options choices;
    choices.nodes = 6;
    auto loop = make_continuous_batching<sampler_type, verifier_type>(target, draft, threads,
                                                                      batch_controller(times, choices), {50});
    for (std::size_t k = 0; k < prompts.size(); ++k) loop.submit(prompts[k], options_of_request(k));
    while (loop.step()) {
    }
    std::int64_t accepted = 0;
    for (auto const& f : loop.take_finished()) {
        EXPECT_EQ(f.error, "");
        EXPECT_EQ(f.result.tokens.size(), 24U);
        accepted += f.result.metrics.accepted;
    }
    EXPECT_GT(accepted, 10);
}

TEST(batched_eagle_head, refusals) {
    auto const of = tiny("trained");
    EXPECT_EQ(message_of<invalid_input>([&] { batched_eagle_head(of.weights, 0); }),
              "sequences = 0: there is 1 sequence or more");
    batched_eagle_head head(of.weights, 2);
    auto const width = static_cast<std::size_t>(head.feature_size());
    std::vector<float> const features(3 * width, 0.25F);
    EXPECT_EQ(message_of<invalid_input>([&] { head.start(2); }), "sequence = 2: there are 2");
    EXPECT_EQ(message_of<invalid_input>([&] { static_cast<void>(head.current_length(-1)); }),
              "sequence = -1: there are 2");
    EXPECT_EQ(message_of<invalid_input>([&] { head.observe(0, features, 1); }),
              "first = 1: the next position of the text is 0");
    EXPECT_EQ(message_of<invalid_input>([&] { head.observe(0, std::span(features).first(width - 1), 0); }),
              "features.size = " + std::to_string(width - 1) + ": there are " + std::to_string(width) +
                  " numbers for each position");
    EXPECT_EQ(message_of<invalid_input>([&] {
                  head.keep(0, 0, std::vector<std::int32_t>{1, 1});
              }),
              "entries[1] = 1: must be larger than the one before");
    head.observe(1, features, 0);
    EXPECT_EQ(head.current_length(1), 0);

    std::vector<float> row(32);
    std::vector<std::int32_t> const sequence_of{1};
    detail::step_reader step;
    auto const read = [&](token_id token, std::int32_t position) {
        step.clear();
        step.add_request(1, 3);
        step.read_node(0, 0, none, token, position);
        step.end_request();
        head.forward(step.inputs(), sequence_of, row);
    };
    EXPECT_EQ(message_of<failed_request>([&] { read(32, 3); }), "token 32 is not in [0, 32)");
    EXPECT_EQ(message_of<failed_request>([&] { read(1, 96); }), "position 96 is beyond the context of 96 tokens");
    row.resize(31);
    EXPECT_EQ(message_of<invalid_input>([&] { read(1, 3); }), "logits.size = 31: there is a row for each scored input");
    EXPECT_EQ(head.current_length(1), 0);
    row.resize(32);
    read(1, 3);
    EXPECT_EQ(head.current_length(1), 4);
}

}  // namespace
}  // namespace batched_eagle_head_test
}  // namespace multidraft::examples
