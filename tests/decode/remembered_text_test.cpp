// The wrapper of the benches that reads nothing twice: the same steps as without it, and fewer calls of the model.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "bench/paper/remembered_text.hpp"
#include "multidraft/decode/autoregressive.hpp"
#include "multidraft/decode/speculative.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/tree/shapes.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/traversal.hpp"
#include "reference/nested_ranked_block.hpp"
#include "support/table_model.hpp"

namespace multidraft {
namespace remembered_text_test {
namespace {

using bench::remembered_text;
using testing::random_conditional;
using testing::table_model;

static_assert(language_model<remembered_text<table_model<double>>>);
static_assert(language_model<remembered_text<table_model<float>>>);

constexpr std::int32_t vocabulary = 12;
table_model<float> a_target() { return {vocabulary, random_conditional(vocabulary, 1, 3, 5, 2.0)}; }
table_model<float> a_draft() { return {vocabulary, random_conditional(vocabulary, 1, 2, 5, 2.0)}; }

generation_options with_seed(std::uint64_t seed, std::int32_t tokens) {
    generation_options options;
    options.max_tokens = tokens;
    options.seed = seed;
    return options;
}

// Steps and whole generations of several methods on one pair of models, in turns: each finds in the caches the entries
// of another.
TEST(remembered_text, gives_the_same_tokens) {
    auto plain_target = a_target();
    auto plain_draft = a_draft();
    auto inner_target = a_target();
    auto inner_draft = a_draft();
    remembered_text target(inner_target);
    remembered_text draft(inner_draft);
    auto const both = [&]<class Sampler, class Verifier>(topology const& shape) {
        return [&, shape](std::span<token_id const> prompt, generation_options const& options, bool one_step) {
            token_callback const go_on = [&](std::span<token_id const>) { return !one_step; };
            auto const plain =
                make_speculative<Sampler, Verifier>(plain_target, plain_draft, shape)(prompt, options, go_on);
            auto const remembered = make_speculative<Sampler, Verifier>(target, draft, shape)(prompt, options, go_on);
            EXPECT_EQ(remembered.tokens, plain.tokens);
            EXPECT_EQ(remembered.metrics.accepted, plain.metrics.accepted);
            EXPECT_EQ(remembered.metrics.target_calls, plain.metrics.target_calls);
        };
    };
    auto const rejection = both.operator()<draft::iid, verify::recursive_rejection<law::iid>>(branching({3, 2, 1}));
    auto const traversal = both.operator()<draft::iid, verify::traversal<law::iid>>(branching({3, 2, 1}));
    auto const nested =
        both.operator()<draft::stratified, multidraft::testing::reference::nested_ranked_block<law::stratified>>(
            branching({2, 2}));
    auto const chained = both.operator()<draft::iid, verify::recursive_rejection<law::iid>>(branching({1, 1, 1, 1}));

    std::vector<token_id> const prompt{3, 1, 4};
    std::vector<token_id> text = prompt;
    auto const more = autoregressive(plain_target, prompt, with_seed(5, 20)).tokens;
    text.insert(text.end(), more.begin(), more.end());
    EXPECT_EQ(autoregressive(target, prompt, with_seed(5, 20)).tokens, more);
    for (std::size_t length = prompt.size(); length < text.size(); ++length)
        for (std::uint64_t seed = 0; seed < 3; ++seed) {
            auto const before = std::span(text).first(length);
            rejection(before, with_seed(seed, 4), true);
            traversal(before, with_seed(seed, 4), true);
            nested(before, with_seed(seed, 3), true);
            chained(before, with_seed(seed, 5), true);
        }
    // Other texts, longer and shorter ones, and several steps in a row.
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
        rejection(prompt, with_seed(seed, 15), false);
        chained(std::vector<token_id>{3, 1, 5, 9}, with_seed(seed, 15), false);
        nested(text, with_seed(seed, 15), false);
        traversal(std::vector<token_id>{7}, with_seed(seed, 15), false);
        EXPECT_EQ(autoregressive(target, prompt, with_seed(seed, 15)).tokens,
                  autoregressive(plain_target, prompt, with_seed(seed, 15)).tokens);
    }
    EXPECT_LT(inner_target.calls, plain_target.calls);
    EXPECT_LT(inner_draft.calls, plain_draft.calls);
}

TEST(remembered_text, reads_a_text_and_a_tree_once) {
    auto inner_target = a_target();
    auto inner_draft = a_draft();
    remembered_text target(inner_target);
    remembered_text draft(inner_draft);
    auto loop = make_speculative<draft::iid, verify::recursive_rejection<law::iid>>(target, draft, branching({2, 2}));
    token_callback const once = [](std::span<token_id const>) { return false; };
    std::vector<token_id> const prompt{3, 1, 4, 1, 5};
    auto const first = loop(prompt, with_seed(2, 3), once);
    EXPECT_EQ(inner_target.calls, 2);  // the text but for its last token, and the tree
    EXPECT_EQ(inner_draft.calls, 3);   // the text, and two levels
    auto const second = loop(prompt, with_seed(2, 3), once);
    EXPECT_EQ(second.tokens, first.tokens);
    EXPECT_EQ(inner_target.calls, 2);
    EXPECT_EQ(inner_draft.calls, 3);
    // The root of that tree is now text, and known text is not read again.
    std::vector<token_id> longer = prompt;
    longer.push_back(9);
    (void)loop(longer, with_seed(2, 3), once);
    EXPECT_EQ(inner_target.calls, 3);
    EXPECT_EQ(inner_draft.calls, 5);
}

TEST(remembered_text, tells_trees_apart_by_their_masks) {
    auto plain = a_target();
    auto inner = a_target();
    remembered_text model(inner);
    std::vector<token_id> const tokens{4, 5, 6};
    std::vector<std::int32_t> const fork{0, 1, 1};
    std::vector<std::int32_t> const chain{0, 1, 2};
    std::vector<std::uint64_t> const of_fork{0b001, 0b011, 0b101};
    std::vector<std::uint64_t> const of_chain{0b001, 0b011, 0b111};
    auto const check = [&](std::span<std::int32_t const> positions, mask_view mask, std::int64_t calls) {
        std::vector<float> expected(3 * vocabulary);
        std::vector<float> found(3 * vocabulary);
        plain.keep(0, {});
        model.keep(0, {});
        plain.forward({tokens, positions, 0, mask}, expected);
        model.forward({tokens, positions, 0, mask}, found);
        EXPECT_EQ(found, expected);
        EXPECT_EQ(model.length(), 3);
        EXPECT_EQ(inner.calls, calls);
    };
    check(fork, {of_fork.data(), 1}, 1);
    check(fork, {of_fork.data(), 1}, 1);
    check(chain, {of_chain.data(), 1}, 2);
    check(chain, {}, 2);  // the same, shorter
    check(fork, {of_fork.data(), 1}, 3);
    // After a node has moved, the entry in its place is read again.
    plain.keep(1, std::vector<std::int32_t>{1});
    model.keep(1, std::vector<std::int32_t>{1});
    EXPECT_EQ(model.length(), 2);
    std::vector<token_id> const next{7};
    std::vector<std::int32_t> const third{2};
    std::vector<float> expected(vocabulary);
    std::vector<float> found(vocabulary);
    plain.forward({next, third, 2, {}}, expected);
    model.forward({next, third, 2, {}}, found);
    EXPECT_EQ(found, expected);
    EXPECT_EQ(std::vector<token_id>(inner.cache().begin(), inner.cache().end()), (std::vector<token_id>{4, 6, 7}));
    check(chain, {}, 5);
}

}  // namespace
}  // namespace remembered_text_test
}  // namespace multidraft
