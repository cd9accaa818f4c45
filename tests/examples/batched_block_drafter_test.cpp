// A block drafter for many texts: the bits of each text alone, and the texts of a loop over one request.
#include "transformer/batched_block_drafter.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "examples/model_support.hpp"
#include "examples/plain_block_drafter.hpp"
#include "examples/several_requests.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/decode/batched_block_draft.hpp"
#include "multidraft/decode/block_drafter.hpp"
#include "multidraft/decode/continuous_batching.hpp"
#include "multidraft/decode/speculative.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/tree/shapes.hpp"
#include "multidraft/verify/nested_ranked_block.hpp"
#include "transformer/batched_transformer.hpp"
#include "transformer/block_drafter.hpp"
#include "transformer/transformer.hpp"

namespace multidraft::examples {
namespace batched_block_drafter_test {
namespace {

namespace fs = std::filesystem;
using multidraft::testing::options_for;
using multidraft::testing::options_of_request;
using multidraft::testing::plain_block_drafter;
using multidraft::testing::plain_target;
using multidraft::testing::positions_from;
using multidraft::testing::same_bits;

using sampler_type = draft::stratified;
using verifier_type = verify::nested_ranked_block<law::stratified>;

std::shared_ptr<transformer_weights const> shipped_target(int threads) {
    transformer_options options;
    options.threads = threads;
    return std::make_shared<transformer_weights const>(fs::path(MULTIDRAFT_MODELS_DIR) / "target", options);
}
std::shared_ptr<block_drafter_weights const> shipped_drafter(std::shared_ptr<transformer_weights const> target,
                                                             int threads) {
    transformer_options options;
    options.threads = threads;
    return std::make_shared<block_drafter_weights const>(fs::path(MULTIDRAFT_MODELS_DIR) / "block-drafter",
                                                         std::move(target), options);
}

/// Some features of that many positions.
std::vector<float> some_features(std::size_t numbers, unsigned seed) {
    std::vector<float> result(numbers);
    std::uint32_t x = 12345 + seed;
    for (float& f : result) {
        x = x * 1664525U + 1013904223U;
        f = static_cast<float>(x >> 8) / 8388608.0F - 1;
    }
    return result;
}

/// The rows of many texts in one call have the bits of those of each alone, with terms and without.
void expect_bits_of_each_alone(std::shared_ptr<block_drafter_weights const> const& weights) {
    std::int32_t const lengths[] = {0, 1, 5, 40, 90, 3, 17, 64, 2, 30, 8, 12, 70};
    auto const count = static_cast<std::int32_t>(std::size(lengths));
    batched_block_drafter many(weights, count + 1);
    block_drafter_model one(weights);
    auto const v = static_cast<std::size_t>(many.vocabulary());
    auto const width = static_cast<std::size_t>(many.feature_size());
    for (std::int32_t depths = 1; depths <= many.block_size(); depths += 2) {
        std::vector<std::int32_t> sequences;
        std::vector<token_id> tokens;
        for (std::int32_t k = 0; k < count; ++k) {
            sequences.push_back(count - k);  // in another order, one left out
            tokens.push_back((7 * k + 3) % many.vocabulary());
            many.start(count - k);
            auto const features = some_features(static_cast<std::size_t>(lengths[k]) * width, static_cast<unsigned>(k));
            // In two pieces.
            std::int32_t const first = lengths[k] / 2;
            auto const split = static_cast<std::size_t>(first) * width;
            if (first > 0) many.observe(count - k, std::span(features).first(split), 0);
            if (lengths[k] > first) many.observe(count - k, std::span(features).subspan(split), first);
        }
        std::size_t const rows = sequences.size() * static_cast<std::size_t>(depths);
        std::vector<float> logits(rows * v);
        many.rows(sequences, tokens, depths, logits);
        std::vector<float> with_terms = logits;
        std::vector<std::int32_t> all_depths;
        std::vector<token_id> parents;
        for (std::size_t r = 0; r < rows; ++r) {
            all_depths.push_back(static_cast<std::int32_t>(r) % depths);
            parents.push_back(static_cast<token_id>((11 * r + 1) % v));
        }
        many.add_parent_terms(all_depths, parents, with_terms);
        for (std::size_t k = 0; k < sequences.size(); ++k) {
            one.reset();
            auto const length = lengths[k];
            auto const features = some_features(static_cast<std::size_t>(length) * width, static_cast<unsigned>(k));
            one.observe(features, positions_from(0, static_cast<std::size_t>(length)));
            std::vector<token_id> text(static_cast<std::size_t>(length), 1);
            text.push_back(tokens[k]);
            std::vector<float> alone(static_cast<std::size_t>(depths) * v);
            one.rows(text, alone);
            auto const first = k * static_cast<std::size_t>(depths);
            EXPECT_TRUE(same_bits(alone, std::span(logits).subspan(first * v, alone.size()))) << k;
            for (std::size_t d = 0; d < static_cast<std::size_t>(depths); ++d) {
                auto const row = std::span(alone).subspan(d * v, v);
                one.add_parent_term(static_cast<std::int32_t>(d), parents[first + d], row);
                EXPECT_TRUE(same_bits(row, std::span(with_terms).subspan((first + d) * v, v))) << k << ", " << d;
            }
        }
    }
}

TEST(batched_block_drafter, rows_have_the_bits_of_each_text_alone) {
    for (int const threads : {1, 2}) expect_bits_of_each_alone(shipped_drafter(shipped_target(threads), threads));
}

TEST(batched_block_drafter, rows_of_fewer_tokens_and_of_published_layouts) {
    fs::path const directory =
        fs::temp_directory_path() / ("multidraft_batched_block_drafter_" + std::to_string(::getpid()));
    plain_target const target{1};
    plain_block_drafter shared{2};
    plain_block_drafter dflash = shared;
    dflash.publish_as_dflash();
    for (plain_block_drafter one : {shared, dflash})
        for (bool const fewer : {false, true}) {
            fs::remove_all(directory);
            if (fewer) one.have_only({0, 1, 5, 6, 7, 13, 20, 22, 31, 38, 39});
            target.write(directory / "target");
            one.write(directory / "drafter");
            auto const options = options_for(precision::f32);
            auto const of_target = std::make_shared<transformer_weights const>(directory / "target", options);
            expect_bits_of_each_alone(
                std::make_shared<block_drafter_weights const>(directory / "drafter", of_target, options));
        }
    fs::remove_all(directory);
}

template <class Blocks, class Block>
void expect_texts_of_each_alone(std::shared_ptr<transformer_weights const> const& target_weights,
                                std::shared_ptr<block_drafter_weights const> const& weights, Blocks& blocks,
                                Block& block) {
    for (topology const& shape : {branching({2, 2, 1}), chain(6)}) {
        batched_block_draft draft(blocks);
        EXPECT_GT((multidraft::testing::expect_texts_of_each_alone<sampler_type, verifier_type>(
                      target_weights, weights->target_layers(), draft, multidraft::testing::several_prompts(), shape,
                      [&](transformer& target, auto const& prompt, auto const& options) {
                          block_drafter<Block, sampler_type> drafter(block, shape);
                          return make_speculative<verifier_type>(target, std::move(drafter))(prompt, options);
                      })),
                  20);
    }
}

TEST(batched_block_drafter, texts_are_those_of_each_request_alone) {
    auto const target = shipped_target(2);
    auto const weights = shipped_drafter(target, 2);
    batched_block_drafter many(weights, 4);
    block_drafter_model one(weights);
    expect_texts_of_each_alone(target, weights, many, one);
}

TEST(batched_block_drafter, so_are_those_by_rows_of_a_few_candidates) {
    auto const target = shipped_target(2);
    auto const weights = shipped_drafter(target, 2);
    batched_block_drafter all(weights, 4);
    batched_short_block_drafter many(all, 64);
    block_drafter_model whole(weights);
    short_block_drafter one(whole, 64);
    expect_texts_of_each_alone(target, weights, many, one);
}

TEST(batched_block_drafter, refusals) {
    auto const refusal = [](auto const& call) -> std::string {
        try {
            call();
        } catch (invalid_input const& e) {
            return e.what();
        } catch (failed_request const& e) {
            return std::to_string(e.request) + ": " + e.what();
        }
        return "nothing was thrown";
    };
    auto const weights = shipped_drafter(shipped_target(1), 1);
    EXPECT_EQ(refusal([&] { batched_block_drafter(weights, 0); }), "sequences = 0: there is 1 sequence or more");
    batched_block_drafter model(weights, 2);
    std::vector<float> features(static_cast<std::size_t>(model.feature_size()));
    EXPECT_EQ(refusal([&] { model.start(2); }), "sequence = 2: there are 2");
    EXPECT_EQ(refusal([&] { model.observe(0, features, 1); }), "first = 1: the next position of the text is 0");
    EXPECT_EQ(refusal([&] { model.observe(0, std::span(features).first(5), 0); }),
              "features.size = 5: there are 768 numbers for each position");
    std::vector<float> logits(4096);
    std::int32_t const sequences[] = {1, 0};
    token_id const tokens[] = {4096, 5};
    EXPECT_EQ(refusal([&] { model.rows(sequences, tokens, 7, logits); }), "depths = 7: a block has 6 rows");
    EXPECT_EQ(refusal([&] { model.rows(sequences, tokens, 1, logits); }), "logits.size = 4096: 2 rows of 4096");
    logits.resize(2 * 4096);
    EXPECT_EQ(refusal([&] { model.rows(sequences, tokens, 1, logits); }), "0: token 4096 is not in [0, 4096)");
    EXPECT_EQ(refusal([&] { model.add_parent_terms(sequences, tokens, logits); }),
              "tokens[0] = 4096: must be in [0, 4096)");
    EXPECT_EQ(refusal([&] { batched_short_block_drafter(model, 4097); }),
              "candidates = 4097: the drafter has 4096 tokens");
    batched_short_block_drafter few(model, 2);
    token_id candidates[] = {0, 1, 2, 3};
    std::int32_t const depths[] = {0, 0};
    auto const four = std::span(logits).first(4);
    EXPECT_EQ(refusal([&] { few.read(sequences, tokens, 7); }), "depths = 7: a block has 6 rows");
    EXPECT_EQ(refusal([&] { few.read(sequences, tokens, 1); }), "0: token 4096 is not in [0, 4096)");
    EXPECT_EQ(refusal([&] { few.candidates_after(depths, depths, tokens, candidates, four); }),
              "blocks[0] = 0: the last call has 0 sequences");
    token_id const others[] = {7, 5};
    few.read(sequences, others, 1);
    EXPECT_EQ(refusal([&] { few.candidates_after(depths, depths, tokens, candidates, four); }),
              "tokens[0] = 4096: must be in [0, 4096)");
    EXPECT_EQ(refusal([&] { few.candidates_after(depths, sequences, others, candidates, four); }),
              "depths[0] = 1: the last call has the rows of 1 depths");
    EXPECT_EQ(refusal([&] { few.candidates_after(depths, depths, others, candidates, four.first(3)); }),
              "logits.size = 3: there is a logit for each candidate");
    EXPECT_EQ(refusal([&] { few.candidates_after(depths, depths, others, std::span(candidates).first(3), four); }),
              "candidates.size = 3: there is a row for each token");
    std::int32_t const layer[] = {8};
    batched_transformer target(shipped_target(1), 1);
    EXPECT_EQ(refusal([&] { target.expose_features(layer); }), "layers[0] = 8: the model has layers 0 to 7");
}

}  // namespace
}  // namespace batched_block_drafter_test
}  // namespace multidraft::examples
