// The device form of the example transformer against the CPU's and the reference logits: on emulated threads, and on a
// CUDA device where there is one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "examples/emulated_machine.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/decode/autoregressive.hpp"
#include "multidraft/decode/speculative.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/tree/mask.hpp"
#include "multidraft/tree/shapes.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "transformer/transformer.hpp"

namespace device_transformer_test {
namespace {

namespace fs = std::filesystem;
using namespace multidraft;
using multidraft::examples::accelerator;
using multidraft::examples::transformer;
using multidraft::examples::transformer_options;
using row = std::vector<float>;

fs::path const models = MULTIDRAFT_MODELS_DIR;

// The products round their inputs to bfloat16, as the CPU's do in that precision (see transformer_test.cpp).
constexpr float largest_error = 0.1F;

/// The two devices: one that is emulated, and CUDA's.
class device_transformer : public ::testing::TestWithParam<bool> {
protected:
    [[nodiscard]] transformer model(char const* name) const {
        transformer_options options;
        options.tree_entries = 128;
        options.accelerator = on_;
        return transformer(models / name, options);
    }
    void SetUp() override {
        if (!GetParam()) {
            on_ = multidraft::testing::on_emulator();
            return;
        }
#ifdef MULTIDRAFT_EXAMPLES_CUDA
        on_ = multidraft::examples::on_cuda();
        try {
            (void)model("draft-tiny");
        } catch (std::runtime_error const& e) {
            GTEST_SKIP() << e.what();
        }
#else
        GTEST_SKIP() << "built without CUDA";
#endif
    }

private:
    accelerator on_;
};

INSTANTIATE_TEST_SUITE_P(devices, device_transformer, ::testing::Values(false, true),
                         [](auto const& param) { return param.param ? "cuda" : "emulated"; });

std::vector<token_id> some_tokens(std::size_t count, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<token_id> tokens(count);
    for (auto& t : tokens) t = static_cast<token_id>(random() % 4096);
    return tokens;
}

row chain(transformer& model, std::span<token_id const> tokens, std::size_t rows) {
    row logits(rows * static_cast<std::size_t>(model.vocabulary()));
    std::vector<std::int32_t> positions(tokens.size());
    std::iota(positions.begin(), positions.end(), model.length());
    model.forward({tokens, positions, model.length(), {}}, logits);
    return logits;
}

row tree(transformer& model, topology const& shape, std::span<token_id const> tokens, std::int32_t context) {
    row logits(tokens.size() * static_cast<std::size_t>(model.vocabulary()));
    ancestor_mask const mask(shape.parents());
    std::vector<std::int32_t> positions;
    for (node_id v = 0; v < shape.size(); ++v) positions.push_back(context + shape.depth(v));
    model.forward({tokens, positions, context, mask.view()}, logits);
    return logits;
}

bool same_bits(std::span<float const> a, std::span<float const> b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

TEST_P(device_transformer, agrees_with_reference_logits) {
    auto const reference = nlohmann::json::parse(std::ifstream(models / "reference_logits.json"));
    for (auto const* name : {"target", "draft"}) {
        transformer m = model(name);
        int left = GetParam() ? 100 : 1;  // emulated threads take their time
        for (auto const& entry : reference["models"][name]) {
            if (left-- == 0) break;
            m.keep(0, {});
            auto const tokens = entry["token_ids"].get<std::vector<token_id>>();
            auto const expected = entry["logits"].get<row>();
            auto const logits = chain(m, tokens, 1);
            ASSERT_EQ(logits.size(), expected.size());
            for (std::size_t v = 0; v < logits.size(); ++v)
                ASSERT_NEAR(logits[v], expected[v], largest_error) << name << ", token " << v;
        }
    }
}

TEST_P(device_transformer, agrees_with_the_cpu_in_long_contexts) {
    // More keys than are taken together, more tokens than a block has rows.
    auto const tokens = some_tokens(600, 4);
    transformer m = model("draft-tiny");
    transformer cpu(models / "draft-tiny", {.numbers = examples::precision::f32});
    auto const expected = chain(cpu, tokens, 70);
    auto const logits = chain(m, tokens, 70);
    for (std::size_t v = 0; v < logits.size(); ++v) ASSERT_NEAR(logits[v], expected[v], largest_error) << v;
}

TEST_P(device_transformer, a_tree_has_the_bits_of_its_chains_and_keeps_its_paths) {
    auto const shape = branching({3, 2, 1, 1});
    auto const tokens = some_tokens(static_cast<std::size_t>(shape.size()), 1);
    auto const context = some_tokens(11, 2);
    transformer m = model("draft-tiny");
    auto const vocabulary = static_cast<std::size_t>(m.vocabulary());
    (void)chain(m, context, 0);
    auto const rows = tree(m, shape, tokens, 11);
    // A path to a leaf, scored as a chain and then as what keep makes of the tree.
    node_id const leaf = shape.leaves()[2];
    std::vector<std::int32_t> path;
    for (node_id v = leaf; v >= 0; v = shape.parent(v)) path.push_back(v);
    std::ranges::reverse(path);
    std::vector<token_id> words;
    for (auto const v : path) words.push_back(tokens[static_cast<std::size_t>(v)]);
    transformer alone = model("draft-tiny");
    (void)chain(alone, context, 0);
    auto const expected = chain(alone, words, words.size());
    for (std::size_t k = 0; k < path.size(); ++k)
        EXPECT_TRUE(same_bits(std::span(rows).subspan(static_cast<std::size_t>(path[k]) * vocabulary, vocabulary),
                              std::span(expected).subspan(k * vocabulary, vocabulary)))
            << "node " << path[k];
    m.keep(11, path);
    EXPECT_EQ(m.length(), alone.length());
    auto const more = some_tokens(3, 3);
    EXPECT_TRUE(same_bits(chain(m, more, 3), chain(alone, more, 3)));
    EXPECT_THROW(m.keep(11, std::vector<std::int32_t>{1, 1}), invalid_input);
}

TEST_P(device_transformer, speculation_gives_the_text_of_plain_decoding) {
    transformer target = model("draft-tiny");
    transformer draft = model("draft-tiny");
    auto const prompt = some_tokens(5, 8);
    generation_options options;
    options.max_tokens = 12;
    options.sampling.temperature = 0;
    auto const plain = autoregressive(target, prompt, options);
    auto const fast = make_speculative<draft::sequential, verify::recursive_rejection<law::sequential>>(
        target, draft, branching({2, 1, 1}))(prompt, options);
    EXPECT_EQ(plain.tokens, fast.tokens);
    EXPECT_LT(fast.metrics.target_calls, 6);
}

}  // namespace
}  // namespace device_transformer_test
