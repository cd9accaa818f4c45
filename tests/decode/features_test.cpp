// The target's features reach a drafter for the accepted path and the prompt, and for nothing else; drafters of a level
// (EAGLE, MTP) have rows and states of their nodes from them.
#include "multidraft/decode/features.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "decode/text_laws.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/decode/best_first_drafter.hpp"
#include "multidraft/decode/lookup_drafter.hpp"
#include "multidraft/decode/speculative.hpp"
#include "multidraft/decode/static_tree_drafter.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/tree/shapes.hpp"
#include "multidraft/verify/naive.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/traversal.hpp"
#include "support/feature_models.hpp"
#include "support/table_model.hpp"

namespace multidraft {
namespace features_test {
namespace {

using testing::feature_head;
using testing::feature_target;
using testing::features_of;
using testing::observed_features;
using testing::random_conditional;
using testing::table_model;

constexpr std::int32_t vocabulary = 3;
using rejection = verify::recursive_rejection<law::sequential>;
using table = table_model<double>;

/// A drafter of another model that keeps what it observes, and checks it before every step.
class recording : public static_tree_drafter<table, draft::sequential> {
    using base = static_tree_drafter<table, draft::sequential>;

public:
    recording(table& draft, topology const& shape, observed_features& seen) : base(draft, shape), seen_(&seen) {}

    [[nodiscard]] static std::int32_t feature_size() { return 2; }
    void observe(std::span<float const> features, std::span<std::int32_t const> positions) {
        seen_->add(features, positions);
    }
    void reset() {
        base::reset();
        seen_->clear();
    }
    template <group G, draw_source Source>
    void grow(G const& g, std::span<token_id const> text, std::int32_t depth, sampling_params const& w, Source& source,
              generation_metrics& m) {
        seen_->expect_those_of(text);
        base::grow(g, text, depth, w, source, m);
    }

private:
    observed_features* seen_;
};

/// Whole texts of a loop, whose drafter has observed all of a text but its last token when it ends.
template <class Verifier>
std::int64_t expect_handed_over(topology const& shape, std::vector<token_id> const& prompt,
                                generation_options options) {
    feature_target target(vocabulary, random_conditional(vocabulary, 11));
    table draft(vocabulary, random_conditional(vocabulary, 12));
    observed_features seen;
    auto loop = make_speculative<Verifier>(target, recording(draft, shape, seen));
    std::int64_t accepted = 0;
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
        options.seed = seed;
        auto const found = loop(prompt, options);
        auto text = prompt;
        text.insert(text.end(), found.tokens.begin(), found.tokens.end());
        seen.expect_those_of(text);
        accepted += found.metrics.accepted;
    }
    return accepted;
}

TEST(features, of_the_accepted_path_and_the_prompt_are_handed_over_and_no_others) {
    for (std::vector<token_id> const& prompt : {std::vector<token_id>{1}, {1, 2}, {0, 1, 2, 2, 1, 0, 1}})
        for (topology const& shape : {chain(0), chain(3), branching({3, 2, 1})}) {
            generation_options options;
            options.max_tokens = 17;
            std::int64_t const accepted = expect_handed_over<rejection>(shape, prompt, options);
            EXPECT_EQ(accepted > 0, shape.size() > 1);
            expect_handed_over<verify::traversal<law::sequential>>(shape, prompt, options);
            // A text that ends inside a path: its last tokens are not in the caches, nor their features.
            options.stop_tokens = {0};
            expect_handed_over<rejection>(shape, prompt, options);
            options.stop_tokens = {};
            options.max_tokens = 2;
            expect_handed_over<rejection>(shape, prompt, options);
            options.max_tokens = 0;
            if (prompt.size() == 1) expect_handed_over<rejection>(shape, prompt, options);
        }
}

TEST(features, pass_through_drafters_that_hold_another) {
    feature_target target(vocabulary, random_conditional(vocabulary, 11));
    table draft(vocabulary, random_conditional(vocabulary, 12));
    observed_features seen;
    auto loop = make_speculative<verify::naive<law::deterministic>>(
        target, with_lookup(recording(draft, branching({2, 1}), seen), {{2, 1}, 2, 3}));
    generation_options options;
    options.max_tokens = 30;
    std::vector<token_id> text{1, 2, 1, 2};
    auto const found = loop(text, options);
    text.insert(text.end(), found.tokens.begin(), found.tokens.end());
    seen.expect_those_of(text);
}

/// The rows of a head in the loop are those of one pass over the whole text, bit for bit: the root's, and those below.
template <class Drafter>
void expect_rows_of_one_pass(Drafter drafter, feature_target& target, feature_head& head) {
    auto loop = make_speculative<rejection>(target, std::move(drafter));
    generation_options options;
    options.max_tokens = 12;
    std::vector<token_id> const prompt{2, 1, 0};
    std::int64_t deeper = 0;
    options.observer = [&](step_view const& step) {
        feature_head whole(vocabulary, 5);
        std::vector<feature_head::state> states(static_cast<std::size_t>(step.tree.size()));
        for (node_id v = 0; v < step.tree.size(); ++v) {
            auto const t = step.text.size() - 1;
            states[static_cast<std::size_t>(v)] =
                whole.after(v > 0   ? states[static_cast<std::size_t>(step.tree.parents[v])]
                            : t > 0 ? features_of(step.text.first(t))
                                    : feature_head::state{0, 0},
                            step.tree.tokens[v]);
            if (v == 0) continue;
            auto const row = whole.logits_of(states[static_cast<std::size_t>(step.tree.parents[v])]);
            double mass = 0;
            for (double const x : row) mass += std::exp(x);
            EXPECT_NEAR(step.q[static_cast<std::size_t>(v)],
                        std::exp(row[static_cast<std::size_t>(step.tree.tokens[v])]) / mass, 1e-12);
            bool written = false;
            for (auto const& one : head.written) written = written || one == row;
            EXPECT_TRUE(written) << "a row of the tree has other bits";
            deeper += step.tree.parents[v] > 0 ? 1 : 0;
        }
    };
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        options.seed = seed;
        EXPECT_EQ(loop(prompt, options).tokens.size(), 12U);
    }
    EXPECT_GT(deeper, 50);
}

TEST(features, of_a_head_in_the_loop_give_the_rows_of_one_pass_over_the_text) {
    feature_target target(vocabulary, random_conditional(vocabulary, 11));
    feature_head head(vocabulary, 5);
    expect_rows_of_one_pass(static_tree_drafter<feature_head, draft::sequential>(head, branching({2, 2, 1})), target,
                            head);
    expect_rows_of_one_pass(best_first_drawn_drafter(head, {5, 3, 2, 3, 0.05}), target, head);
}

TEST(features, of_a_head_leave_the_law_of_the_text) {
    auto const p = random_conditional(vocabulary, 11);
    feature_target target(vocabulary, p);
    feature_head head(vocabulary, 5);
    generation_options options;
    options.max_tokens = 3;
    std::vector<token_id> const prompt{2, 1};
    auto loop = make_speculative<rejection>(
        target, static_tree_drafter<feature_head, draft::sequential>(head, branching({2, 1})));
    auto const found = testing::law_of_loop(loop, prompt, options, [](generation const&) {});
    EXPECT_LT(testing::distance(found.law, testing::true_law(p, vocabulary, prompt, 3, {})), 1e-12);
}

TEST(features, of_another_size_are_refused) {
    struct narrow : feature_head {
        using feature_head::feature_head;
        [[nodiscard]] std::int32_t feature_size() const { return 3; }
    };
    feature_target target(vocabulary, random_conditional(vocabulary, 11));
    narrow head(vocabulary, 5);
    using drafter = static_tree_drafter<narrow, draft::sequential>;
    EXPECT_THROW(static_cast<void>(make_speculative<rejection>(target, drafter(head, chain(1)))), invalid_input);
}

TEST(features, of_an_engines_arrays_are_copied) {
    std::vector<float> const features{0, 1, 10, 11, 20, 21, 30, 31};
    std::vector<node_id> const nodes{0, 2, 3};
    std::vector<float> out(6);
    copy_features<float>(features, 2, nodes, out);
    EXPECT_EQ(out, (std::vector<float>{0, 1, 20, 21, 30, 31}));
    std::vector<float> const before = out;
    std::vector<node_id> const beyond{0, 4};
    EXPECT_THROW(copy_features<float>(features, 2, beyond, span<float>(out.data(), 4)), invalid_input);
    EXPECT_THROW(copy_features<float>(features, 2, nodes, span<float>(out.data(), 5)), invalid_input);
    EXPECT_THROW(copy_features<float>(features, 0, nodes, span<float>(out.data(), 0)), invalid_input);
    EXPECT_EQ(out, before);
}

TEST(features, are_paired_with_the_entry_before_on_the_path) {
    // A context of three entries, and two branches below the root (entry 3): nodes 1, 2, then a child of node 1.
    std::vector<node_id> const parents{none, 0, 0, 1};
    ancestor_mask const mask(parents);
    std::vector<token_id> const tokens{5, 6, 7, 8};
    std::vector<std::int32_t> const positions{3, 4, 4, 5};
    token_batch const batch{tokens, positions, 3, mask.view()};
    for (std::int32_t v = 0; v < 4; ++v)
        EXPECT_EQ(parent_entry(batch, v, 3), v == 0 ? 2 : 3 + parents[static_cast<std::size_t>(v)]) << v;
    EXPECT_EQ(parent_entry({tokens, positions, 3, {}}, 2, 3), 4);
    EXPECT_EQ(parent_entry({tokens, positions, 0, {}}, 0, 0), -1);
}

}  // namespace
}  // namespace features_test
}  // namespace multidraft
