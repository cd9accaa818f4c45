// The hidden states that the example model shows: what its head multiplies, the same in a chain and in a tree.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <numeric>
#include <vector>

#include "multidraft/decode/stop_rule.hpp"
#include "multidraft/tree/mask.hpp"
#include "transformer/safetensors.hpp"
#include "transformer/transformer.hpp"

namespace hidden_states_test {
namespace {

using namespace multidraft;
using namespace multidraft::examples;

static_assert(reveals_hidden_state<transformer>);

TEST(HiddenStates, TimesTheHeadAreTheLogits) {
    std::filesystem::path const directory = std::filesystem::path(MULTIDRAFT_MODELS_DIR) / "draft";
    transformer model(directory, {.numbers = precision::f32});
    std::vector<token_id> const text{1, 300, 17, 2000, 5};
    std::vector<std::int32_t> positions(text.size());
    std::iota(positions.begin(), positions.end(), 0);
    auto const vocabulary = static_cast<std::size_t>(model.vocabulary());
    std::vector<float> logits(2 * vocabulary);
    model.forward(token_batch{text, positions, 0, {}}, logits);
    auto const width = static_cast<std::size_t>(model.hidden_size());
    ASSERT_EQ(model.hidden_states().size(), 2 * width) << "a row a row of logits";
    std::vector<float> const hidden(model.hidden_states().begin(), model.hidden_states().end());
    tensor_store const tensors = tensor_store::open(directory);  // the head is tied to the embedding
    auto const& head = tensors.get("model.embed_tokens.weight", {model.vocabulary(), model.hidden_size()});
    std::vector<float> row(width);
    for (std::size_t const token : {std::size_t{0}, std::size_t{5}, std::size_t{1234}, vocabulary - 1}) {
        head.read(token * width, row);
        for (std::size_t r = 0; r < 2; ++r) {
            double sum = 0;
            for (std::size_t i = 0; i < width; ++i)
                sum += static_cast<double>(row[i]) * static_cast<double>(hidden[r * width + i]);
            EXPECT_NEAR(logits[r * vocabulary + token], sum, 1e-3 * (1 + std::abs(sum)));
        }
    }

    // The last token again, behind a sibling that it does not see.
    model.keep(4, {});
    std::vector<token_id> const siblings{77, 5};
    std::vector<std::int32_t> const places{4, 4};
    std::vector<std::uint64_t> words{1, 2};
    model.forward(token_batch{siblings, places, 4, mask_view{words.data(), 1}}, logits);
    ASSERT_EQ(model.hidden_states().size(), 2 * width);
    for (std::size_t i = 0; i < width; ++i) ASSERT_EQ(model.hidden_states()[width + i], hidden[width + i]) << i;
    model.keep(4, {});
    model.forward(token_batch{std::span(text).first(1), std::span(places).first(1), 4, {}}, {});
    EXPECT_TRUE(model.hidden_states().empty()) << "no logits, no hidden states";
}

}  // namespace
}  // namespace hidden_states_test
