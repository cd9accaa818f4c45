// Early stopping: the nets, their inputs, and that trees which stop depending on draws stay exact.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "decode/text_laws.hpp"
#include "multidraft/decode/autoregressive.hpp"
#include "multidraft/decode/draft_tree.hpp"
#include "multidraft/decode/speculative.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/research/early_stop.hpp"
#include "multidraft/tree/shape_text.hpp"
#include "multidraft/tree/shapes.hpp"
#include "multidraft/verify/naive.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "support/refusal.hpp"
#include "support/table_model.hpp"

namespace multidraft {
namespace early_stop_test {
namespace {

using testing::distance;
using testing::law_of_loop;
using testing::random_conditional;
using testing::refusal;
using testing::table_model;
using testing::true_law;

using rejection = verify::recursive_rejection<law::sequential>;

/// The logistic function of a w_0 x_0 + .. + bias.
perceptron one_layer(std::vector<float> weights, float bias) {
    auto const n = static_cast<std::int32_t>(weights.size());
    return perceptron({{n, 1, std::move(weights), {bias}}});
}

/// A table model whose hidden state is the input token and the number of tokens attended to.
template <class Logit>
class open_table_model : public table_model<Logit> {
public:
    using table_model<Logit>::table_model;

    void forward(token_batch const& batch, std::span<Logit> logits) {
        table_model<Logit>::forward(batch, logits);
        hidden_.clear();
        auto const rows = logits.size() / static_cast<std::size_t>(this->vocabulary());
        for (std::size_t i = batch.tokens.size() - rows; i < batch.tokens.size(); ++i) {
            hidden_.push_back(static_cast<float>(batch.tokens[i]));
            hidden_.push_back(static_cast<float>(batch.positions[i]));
        }
    }
    [[nodiscard]] std::int32_t hidden_size() const { return 2; }
    [[nodiscard]] std::span<float const> hidden_states() const { return hidden_; }

private:
    std::vector<float> hidden_;
};

static_assert(reveals_hidden_state<open_table_model<float>>);
static_assert(!reveals_hidden_state<table_model<float>>);
static_assert(stop_rule<probability_stop> && stop_rule<hidden_state_stop>);

TEST(Perceptron, IsWhatItsLayersSay) {
    perceptron const net({{2, 2, {1, -1, 2, 0.5F}, {0.25F, -1}}, {2, 1, {3, -2}, {0.5F}}});
    std::vector<float> const x{1, 2};
    // Hidden: max(1 - 2 + 0.25, 0) = 0 and max(2 + 1 - 1, 0) = 2; out: -4 + 0.5.
    EXPECT_NEAR(net(x), 1 / (1 + std::exp(3.5)), 1e-7);
    EXPECT_EQ(net.inputs(), 2);
    EXPECT_EQ(net.layers(), 2U);
}

TEST(ProbabilityStop, ReadsTheLargestAndTheEntropy) {
    std::vector<double> const q{0.5, 0.0, 0.3, 0.2};
    std::vector<float> features(4);
    host_group const g;
    probability_stop::read(g, probabilities<double>(q.data(), 4), std::span<float>(features));
    EXPECT_FLOAT_EQ(features[0], 0.5F);
    EXPECT_FLOAT_EQ(features[1], 0.3F);
    EXPECT_FLOAT_EQ(features[2], 0.2F);
    EXPECT_NEAR(features[3], -(0.5 * std::log(0.5) + 0.3 * std::log(0.3) + 0.2 * std::log(0.2)), 1e-6);
    std::vector<float> more(8);
    probability_stop::read(g, probabilities<double>(q.data(), 4), std::span<float>(more));
    EXPECT_EQ(more[3], 0) << "a token of no mass";
    EXPECT_EQ(more[6], 0) << "more than there are tokens";
}

TEST(EarlyStop, IsExact) {
    constexpr std::int32_t vocabulary = 3;
    using model = open_table_model<double>;
    auto const p = random_conditional(vocabulary, 11);
    auto const q = random_conditional(vocabulary, 12);
    model target(vocabulary, p);
    model draft(vocabulary, q);
    std::vector<token_id> const prompt{1, 2};
    bool some_stopped = false;
    auto const expect_exact = [&](auto rule, topology const& shape, sampling_params const& w) {
        generation_options options;
        options.max_tokens = 3;
        options.sampling = w;
        auto loop = make_speculative<rejection>(
            target, static_tree_drafter<model, draft::sequential, decltype(rule)>(draft, shape, {}, rule));
        std::int64_t fewest = 1000;
        std::int64_t most = 0;
        auto const result = law_of_loop(loop, prompt, options, [&](generation const& g) {
            ASSERT_LE(draft.length(), target.length());
            fewest = std::min(fewest, g.metrics.drafted);
            most = std::max(most, g.metrics.drafted);
        });
        EXPECT_NEAR(result.total, 1, 1e-12);
        EXPECT_LT(distance(result.law, true_law(p, vocabulary, prompt, 3, w)), 1e-12);
        some_stopped = some_stopped || fewest < most;
    };
    for (sampling_params const& w :
         {sampling_params{}, sampling_params{.temperature = 0.6F}, sampling_params{.top_k = 2}}) {
        for (auto const& shape : {branching({2, 1}), chain(2), branching({3, 1})}) {
            for (float const bias : {-0.6F, -0.5F, -0.4F})
                expect_exact(probability_stop(one_layer({1, 0}, bias), 0.5), shape, w);
            // By the token that was drawn last, on which it may depend.
            expect_exact(hidden_state_stop(one_layer({1, 0}, -0.5F), 0.5), shape, w);
        }
    }
    EXPECT_TRUE(some_stopped);
}

TEST(EarlyStop, OfATreeThatAlwaysOrNeverStops) {
    constexpr std::int32_t vocabulary = 50;
    table_model<float> target(vocabulary, random_conditional(vocabulary, 1, 2, 0, 2.0));
    table_model<float> draft(vocabulary, random_conditional(vocabulary, 1, 1, 0, 2.0));
    std::vector<token_id> const prompt{3, 1, 4};
    generation_options options;
    options.max_tokens = 40;
    options.seed = 5;
    auto const run = [&](float bias, topology const& shape) {
        return make_speculative<rejection>(
            target, static_tree_drafter<table_model<float>, draft::sequential, probability_stop>(
                        draft, shape, {}, probability_stop(one_layer({0, 0}, bias))))(prompt, options);
    };
    for (auto const& shape : {branching({2, 2, 1}), branching({9, 9})}) {
        auto const plain = make_speculative<draft::sequential, rejection>(target, draft, shape)(prompt, options);
        auto const never = run(5, shape);
        EXPECT_EQ(never.tokens, plain.tokens) << "the sliced mask of the whole shape is the mask";
        EXPECT_EQ(never.metrics.drafted, plain.metrics.drafted);
        EXPECT_EQ(run(-5, shape).metrics.drafted, 0);
    }
    // A draft with less support than the shape has children: the tree is not a slice of the shape.
    options.draft_sampling = sampling_params{.top_k = 2};
    auto const narrow = branching({3, 2, 1});
    EXPECT_EQ(run(5, narrow).tokens,
              (make_speculative<draft::sequential, rejection>(target, draft, narrow)(prompt, options).tokens));
}

// One tree object, shapes of one size after another: the mask is always that of the tree at hand.
TEST(EarlyStop, OfShapesOfOneSizeHasTheMaskOfEach) {
    table_model<float> draft(6, random_conditional(6, 3, 2, 0, 1.0));
    draft_tree<float, draft::sequential, probability_stop> tree({}, probability_stop(one_layer({0, 0}, 5.0F), 0.4));
    std::vector<token_id> const text{1, 2, 3};
    addressed_source source{addressed_uniforms(1)};
    generation_metrics m;
    for (auto const& shape : {parse_shape("[-1 0 0 1 2]"), parse_shape("[-1 0 0 1 1]"), parse_shape("[-1 0 1 2 3]"),
                              parse_shape("[-1 0 0 1 1]")}) {
        draft.keep(0, {});
        tree.grow(host_group{}, draft, text, shape, shape.max_depth(), sampling_params{}, source, m);
        auto const drawn = tree.tree().tree;
        ASSERT_EQ(drawn.size(), shape.size());
        ancestor_mask const expected(drawn.parents);
        for (node_id i = 0; i < drawn.size(); ++i)
            for (node_id j = 0; j < drawn.size(); ++j)
                EXPECT_EQ(tree.mask()(i, j), expected.view()(i, j)) << to_string(shape) << ' ' << i << ' ' << j;
    }
}

TEST(EarlyStop, BadInputIsNamed) {
    auto const has = [&](auto&& f, std::string const& part) {
        std::string const text = refusal(f);
        EXPECT_NE(text.find(part), std::string::npos) << text;
    };
    has([] { perceptron({}); }, "layers.size = 0");
    has([] { static_cast<void>(one_layer({1, 2}, 0)(std::vector<float>{1})); }, "input.size = 1");
    has([] { static_cast<void>(one_layer({1, 2}, 0)(std::vector<float>{1, 2, 3})); }, "input.size = 3");
    has([] { perceptron({{2, 1, {1}, {0}}}); }, "layers.weights.size[0] = 1");
    has([] { perceptron({{2, 1, {1, 2}, {}}}); }, "layers.bias.size[0] = 0");
    has([] { perceptron({{2, 2, {1, 2, 3, 4}, {0, 0}}}); }, "layers.outputs[0] = 2");
    has([] { perceptron({{1, 2, {1, 2}, {0, 0}}, {3, 1, {1, 2, 3}, {0}}}); }, "layers.inputs[1] = 3");
    has([] { perceptron({{1, 1, {std::nanf("")}, {0}}}); }, "layers[0]");
    has([] { probability_stop(one_layer({1, 1}, 0), 1.5); }, "threshold = 1.5");
    has([] { probability_stop(one_layer({1}, 0)); }, "net.inputs = 1");
    has([] { hidden_state_stop(one_layer({1}, 0), std::nan("")); }, "threshold = ");
    has(
        [] {
            std::vector<double> const q{1.0};
            std::vector<float> const hidden{1, 2, 3};
            (void)hidden_state_stop(one_layer({1}, 0))(host_group{}, probabilities<double>(q.data(), 1), hidden);
        },
        "hidden.size = 3");
}

}  // namespace
}  // namespace early_stop_test
}  // namespace multidraft
