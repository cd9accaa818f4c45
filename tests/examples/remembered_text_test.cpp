// Steps of the shipped models from what a wrapper remembers: token for token those of models that read everything anew.
#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bench/paper/remembered_text.hpp"
#include "multidraft/decode/autoregressive.hpp"
#include "multidraft/decode/speculative.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/tree/shapes.hpp"
#include "multidraft/verify/nested_ranked_block.hpp"
#include "multidraft/verify/traversal.hpp"
#include "transformer/transformer.hpp"

namespace multidraft::examples {
namespace remembered_text_test {
namespace {

TEST(remembered_text, of_the_shipped_models) {
    transformer_options one_thread;
    one_thread.threads = 1;
    transformer target(MULTIDRAFT_MODELS_DIR "/target", one_thread);
    transformer draft(MULTIDRAFT_MODELS_DIR "/draft", one_thread);
    transformer inner_target(target.weights());
    transformer inner_draft(draft.weights());
    bench::remembered_text<transformer> remembering_target(inner_target);
    bench::remembered_text<transformer> remembering_draft(inner_draft);

    generation_options options;
    options.sampling.temperature = 0.8F;
    options.max_tokens = 12;
    std::vector<token_id> text{1, 20, 300, 40, 5};
    std::size_t const prompt = text.size();
    auto const more = autoregressive(target, text, options).tokens;
    text.insert(text.end(), more.begin(), more.end());

    auto const shape = branching({3, 2, 2});
    options.max_tokens = shape.max_depth() + 1;
    std::int64_t accepted = 0;
    auto const check = [&](auto& loop, auto& remembering, std::span<token_id const> before) {
        token_callback const once = [](std::span<token_id const>) { return false; };
        auto const anew = loop(before, options, once);
        EXPECT_EQ(remembering(before, options, once).tokens, anew.tokens);
        accepted += anew.metrics.accepted;
    };
    using nested = verify::nested_ranked_block<law::stratified>;
    auto a = make_speculative<draft::iid, verify::traversal<law::iid>>(target, draft, shape);
    auto remembering_a =
        make_speculative<draft::iid, verify::traversal<law::iid>>(remembering_target, remembering_draft, shape);
    auto b = make_speculative<draft::stratified, nested>(target, draft, shape);
    auto remembering_b = make_speculative<draft::stratified, nested>(remembering_target, remembering_draft, shape);
    for (std::size_t length = prompt; length < text.size(); ++length)
        for (options.request = 1; options.request <= 2; ++options.request) {
            check(a, remembering_a, std::span(text).first(length));
            check(a, remembering_a, std::span(text).first(length));
            check(b, remembering_b, std::span(text).first(length));
        }
    EXPECT_GT(accepted, 0);
}

}  // namespace
}  // namespace remembered_text_test
}  // namespace multidraft::examples
