// The turns of a conversation over a model that keeps its cache: the tokens of a model that reads everything anew, and
// fewer read.
#include "generate/continued_text.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "examples/counted_model.hpp"
#include "examples/model_support.hpp"
#include "multidraft/decode/autoregressive.hpp"
#include "multidraft/decode/lookup_drafter.hpp"
#include "multidraft/decode/speculative.hpp"
#include "multidraft/verify/naive.hpp"

namespace continued_text_test {
namespace {

using namespace multidraft;
using namespace multidraft::testing;
using multidraft::examples::continued_text;

TEST(continued_text, gives_the_tokens_of_a_model_that_reads_everything) {
    auto const weights = weights_of("target", precision::f32);
    transformer inner(weights);
    transformer other(weights);
    counted_model counting(inner);
    continued_text<counted_model> continued(counting);
    auto const by_lookup = [](auto& model, std::span<token_id const> text, generation_options const& options) {
        return make_speculative<verify::naive<law::deterministic>>(model, lookup_drafter{})(text, options).tokens;
    };
    for (float const temperature : {0.0F, 0.8F}) {
        generation_options options;
        options.sampling.temperature = temperature;
        options.max_tokens = 24;
        std::vector<token_id> text{1};
        for (int turn = 0; turn < 5; ++turn) {
            // Repeats give the look-up something to find.
            for (token_id const t : {20, 300, 40, 20, 300, 5 + turn}) text.push_back(t);
            if (turn == 3) text.resize(9);  // another conversation with the same beginning
            if (turn == 4) text[5] = 77;    // one that parts in the middle
            std::size_t const before = counting.read;
            bool const drafts = turn % 2 == 0;
            auto const tokens =
                drafts ? by_lookup(continued, text, options) : autoregressive(continued, text, options).tokens;
            std::size_t const read = counting.read - before;
            EXPECT_EQ(tokens, drafts ? by_lookup(other, text, options) : autoregressive(other, text, options).tokens)
                << turn;
            // Without drafts: what is new of the prompt, and the tokens but the last one.
            if (turn == 1) {
                EXPECT_EQ(read, 7 + tokens.size() - 1);
            }
            if (turn == 3) {
                EXPECT_EQ(read, tokens.size());
            }
            text.insert(text.end(), tokens.begin(), tokens.end());
            ++options.request;
        }
    }
}

TEST(continued_text, reads_what_is_asked_for) {
    auto const weights = weights_of("target", precision::f32);
    transformer inner(weights);
    transformer other(weights);
    continued_text<transformer> continued(inner);
    auto const tokens = some_tokens(12, 4);
    auto const score = [&](auto& model, std::size_t rows) {
        std::vector<float> logits(rows * static_cast<std::size_t>(model.vocabulary()));
        auto const positions = positions_from(0, tokens.size());
        model.keep(0, {});
        model.forward({tokens, positions, 0, {}}, logits);
        EXPECT_EQ(model.length(), 12);
        return logits;
    };
    for (std::size_t const rows : {0U, 1U, 5U, 12U, 0U, 12U})
        EXPECT_TRUE(same_bits(score(continued, rows), score(other, rows))) << rows;
    // A tree after a reset has the positions of its levels, not of a text.
    forest const tree({-1, -1, 0}, {5, 6, 7}, 0);
    auto const run = [&](auto& model) {
        std::vector<float> logits(3 * static_cast<std::size_t>(model.vocabulary()));
        model.forward({tree.tokens, tree.positions, 0, tree.view()}, logits);
        model.keep(0, std::vector<std::int32_t>{1});
        EXPECT_EQ(model.length(), 1);
        return logits;
    };
    // The entry that was moved is known by its token.
    for (token_id const first : {6, 5}) {
        continued.keep(0, {});
        other.keep(0, {});
        EXPECT_TRUE(same_bits(run(continued), run(other)));
        std::vector<token_id> const next{first, 80};
        std::vector<std::int32_t> const positions{0, 1};
        std::vector<float> a(static_cast<std::size_t>(other.vocabulary()));
        auto b = a;
        continued.keep(0, {});
        other.keep(0, {});
        continued.forward({next, positions, 0, {}}, a);
        other.forward({next, positions, 0, {}}, b);
        EXPECT_TRUE(same_bits(a, b));
    }
}

}  // namespace
}  // namespace continued_text_test
