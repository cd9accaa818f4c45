// Many sequences of one model: the texts of requests in flight together are those of each alone, bit for bit.
#include "transformer/batched_transformer.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "examples/several_requests.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/decode/continuous_batching.hpp"
#include "multidraft/decode/speculative.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/testing/check_batched_model.hpp"
#include "multidraft/testing/check_model.hpp"
#include "multidraft/tree/shapes.hpp"
#include "multidraft/verify/nested_ranked_block.hpp"
#include "transformer/transformer.hpp"

namespace multidraft::examples {
namespace batched_transformer_test {
namespace {

std::shared_ptr<transformer_weights const> weights_of(char const* name, int threads = 1) {
    transformer_options options;
    options.threads = threads;
    return std::make_shared<transformer_weights const>(std::filesystem::path(MULTIDRAFT_MODELS_DIR) / name, options);
}

using sampler_type = draft::stratified;
using verifier_type = verify::nested_ranked_block<law::stratified>;

using multidraft::testing::options_of_request;
using multidraft::testing::several_prompts;

TEST(batched_transformer, reads_trees_as_texts_bit_for_bit) {
    std::vector<token_id> const text{1, 50, 312, 7, 99, 1024, 5};
    transformer alone(weights_of("draft"));
    auto const one = multidraft::testing::check_model(alone, text, 0.0);
    EXPECT_EQ(one.fault, "");
    EXPECT_TRUE(one.same_bits);
    batched_transformer many(weights_of("draft"), 3);
    auto const together = multidraft::testing::check_model(many, text, 0.0);
    EXPECT_EQ(together.fault, "");
    EXPECT_TRUE(together.same_bits);
}

TEST(batched_transformer, texts_are_those_of_each_request_alone) {
    auto const target_weights = weights_of("target", 2);
    auto const draft_weights = weights_of("draft");
    topology const shape = branching({2, 2, 1});
    batched_transformer target(target_weights, 4);
    batched_transformer draft(draft_weights, 4);
    host_threads const threads(2);
    auto loop =
        make_continuous_batching<sampler_type, verifier_type>(target, draft, threads, fixed_shapes(shape), {50});
    auto const all = several_prompts();
    for (std::size_t k = 0; k < all.size(); ++k) loop.submit(all[k], options_of_request(k));
    while (loop.step()) {
    }
    auto const done = loop.take_finished();
    ASSERT_EQ(done.size(), all.size());
    transformer alone(target_weights);
    transformer draft_alone(draft_weights);
    for (auto const& f : done) {
        auto const k = static_cast<std::size_t>(f.ticket);
        EXPECT_EQ(f.error, "");
        auto const one =
            make_speculative<sampler_type, verifier_type>(alone, draft_alone, shape)(all[k], options_of_request(k));
        EXPECT_EQ(f.result.tokens, one.tokens) << k;
    }
}

TEST(batched_transformer, a_request_that_cannot_go_on_ends_alone) {
    auto const weights = weights_of("draft-tiny");
    batched_transformer model(weights, 2);
    host_threads const threads(1);
    batched_transformer draft(weights, 2);
    auto both = make_continuous_batching<sampler_type, verifier_type>(
        model, draft, threads, fixed_shapes(branching({2000, 1})));  // more nodes than a cache has entries for
    both.submit(several_prompts()[0], options_of_request(0));
    while (both.step()) {
    }
    auto const done = both.take_finished();
    ASSERT_EQ(done.size(), 1U);
    EXPECT_NE(done[0].error.find("entries of a cache"), std::string::npos) << done[0].error;
}

TEST(batched_transformer, refusals) {
    auto const weights = weights_of("draft-tiny");
    auto const refusal = [](auto const& call) -> std::string {
        try {
            call();
        } catch (invalid_input const& e) {
            return e.what();
        }
        return "nothing was thrown";
    };
    EXPECT_EQ(refusal([&] { batched_transformer(weights, 0); }), "sequences = 0: there is 1 sequence or more");
    batched_transformer model(weights, 2);
    std::vector<std::int32_t> const same{1, 1};
    EXPECT_EQ(refusal([&] { model.keep(2, 0, {}); }), "sequence = 2: there are 2");
    EXPECT_EQ(refusal([&] { model.keep(0, 0, same); }), "entries[1] = 1: must be larger than the one before");
    EXPECT_EQ(refusal([&] { model.keep(0, -1, {}); }).substr(0, 12), "context = -1");
    std::vector<float> logits(3);
    EXPECT_EQ(refusal([&] { model.forward({}, same, logits); }),
              "logits.size = 3: there is a row for each scored input");
}

}  // namespace
}  // namespace batched_transformer_test
}  // namespace multidraft::examples
