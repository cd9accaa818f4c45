// A conversation with a block drafter that has fewer tokens than the target: both caches stay from turn to turn, and
// tokens, counts and the law of a text are those of models that read everything anew.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "decode/text_laws.hpp"
#include "examples/counted_model.hpp"
#include "examples/model_support.hpp"
#include "examples/plain_block_drafter.hpp"
#include "generate/continued_text.hpp"
#include "multidraft/control/budget_controller.hpp"
#include "multidraft/control/budgeted_block_drafter.hpp"
#include "multidraft/decode/block_drafter.hpp"
#include "multidraft/decode/speculative.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/verify/nested_ranked_block.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "support/chi_squared.hpp"
#include "transformer/block_drafter.hpp"

namespace continued_pair_test {
namespace {

namespace fs = std::filesystem;
using namespace multidraft;
using namespace multidraft::testing;
using multidraft::examples::block_drafter_model;
using multidraft::examples::block_drafter_weights;
using multidraft::examples::continued_drafter;
using multidraft::examples::continued_pair;
using multidraft::examples::short_block_drafter;

constexpr std::size_t vocabulary = 40;

using turns = continued_pair<counted_model, block_drafter_model>;

/// Times by which all trees pay, and nothing is learnt of a clock.
budget_controller free_rows(std::int32_t nodes) {
    return budget_controller({analysis::call_cost({{1, 1.0}, {9, 1.01}}), analysis::call_cost({{1, 0.01}}), {{}}},
                             {.nodes = nodes, .learns_times = false});
}

class continued_turns : public ::testing::Test {
protected:
    void SetUp() override {
        directory = fs::temp_directory_path() / ("multidraft_continued_pair_" + std::to_string(::getpid()));
        plain_target(1).write(directory / "target");
        of_target = std::make_shared<transformer_weights const>(directory / "target", options_for(precision::f32));
        options.sampling.temperature = 0.8F;
        load({0, 2, 3, 5, 6, 7, 9, 13, 14, 17, 20, 22, 25, 28, 31, 33, 35, 38});
    }
    void TearDown() override { fs::remove_all(directory); }

    /// A drafter of these tokens.
    void load(std::vector<token_id> const& tokens) {
        plain_block_drafter drafter(2);
        drafter.have_only(tokens);
        drafter.write(directory / "drafter");
        weights = std::make_shared<block_drafter_weights const>(directory / "drafter", of_target,
                                                                options_for(precision::f32));
    }
    [[nodiscard]] transformer new_target() const {
        transformer model(of_target);
        model.expose_features(weights->target_layers());
        return model;
    }
    /// The law of two tokens after a text, by rows of the target alone.
    [[nodiscard]] std::vector<double> law_of_two(std::vector<token_id> text) const {
        std::vector<double> law;
        transformer model(of_target);
        auto const row_after = [&] {
            model.keep(0, {});
            auto const logits = forward_chain(model, text, 1);
            row_view<float> const view(logits.data(), static_cast<index_t>(vocabulary));
            auto const row = process_logits(host_group{}, view, options.sampling).row;
            std::vector<double> p;
            for (token_id x = 0; x < row.size(); ++x) p.push_back(static_cast<double>(row(x)));
            return p;
        };
        auto const first = row_after();
        for (std::size_t x = 0; x < vocabulary; ++x) {
            text.push_back(static_cast<token_id>(x));
            for (double const p : row_after()) law.push_back(first[x] * p);
            text.pop_back();
        }
        return law;
    }

    fs::path directory;
    std::shared_ptr<transformer_weights const> of_target;
    std::shared_ptr<block_drafter_weights const> weights;
    generation_options options;
};

TEST_F(continued_turns, give_the_tokens_of_models_that_read_everything) {
    transformer inner = new_target(), other = new_target();
    block_drafter_model of_drafter(weights), of_other(weights);
    counted_model counting(inner);
    turns kept(counting, of_drafter);
    using nested = verify::nested_ranked_block<law::stratified>;
    auto const by = [&](auto& target, auto& drafter, std::span<token_id const> text) {
        using model = std::remove_reference_t<decltype(drafter)>;
        using trees = block_drafter<model, draft::stratified, best_first_shape>;
        return make_speculative<nested>(target, trees(drafter, best_first_shape({.nodes = 8, .children = 4})))(text,
                                                                                                               options);
    };
    std::int64_t accepted = 0;
    for (float const temperature : {0.0F, 0.8F}) {
        options.sampling.temperature = temperature;
        options.max_tokens = 14;
        std::vector<token_id> text{1};
        for (int turn = 0; turn < 7; ++turn) {
            for (token_id const t : {20, 3, 34, 20, 3, 5 + turn}) text.push_back(t);
            if (turn == 3) text.resize(9);  // another conversation with the same beginning
            if (turn == 4) text[5] = 7;     // one that parts in the middle
            if (turn == 5) text = {1};      // no token before the one that is read in a step
            if (turn == 6) text = {2, 1};   // nothing in common
            std::size_t const before = counting.read;
            auto const found = by(kept.target, kept.drafter, text);
            EXPECT_EQ(found.tokens, by(other, of_other, text).tokens) << turn;
            std::size_t const read = counting.read - before;
            auto const in_steps = static_cast<std::size_t>(found.metrics.drafted + found.metrics.target_calls);
            // Of the prompt what is new, but the last token, which a step reads; and the last token of the answer.
            std::size_t const news[] = {6, 6, 6, 0, text.size() - 6, 0, 1};
            EXPECT_EQ(read, in_steps + news[turn]) << turn;
            EXPECT_EQ(of_drafter.observed(), inner.length());
            accepted += found.metrics.accepted;
            text.insert(text.end(), found.tokens.begin(), found.tokens.end());
            ++options.request;
        }
    }
    EXPECT_GT(accepted, 10);
}

// By all branches of the draws, for the method that can be enumerated, its trees chosen at each step.
TEST_F(continued_turns, have_the_law_of_the_target_by_enumeration) {
    options.sampling.top_k = 3;
    options.max_tokens = 3;
    options.draft_sampling = sampling_params{};
    std::vector<token_id> const texts[] = {{1, 4, 20}, {1, 4, 20, 7, 31, 2}};
    // The likeliest pairs of both texts, so that drafts are accepted, and a token that is never accepted.
    std::set<token_id> own{39};
    for (auto const& text : texts) {
        auto const law = law_of_two(text);
        auto const likeliest = static_cast<token_id>(std::ranges::max_element(law) - law.begin());
        own.insert({likeliest / static_cast<token_id>(vocabulary), likeliest % static_cast<token_id>(vocabulary)});
    }
    load({own.begin(), own.end()});
    transformer inner = new_target();
    block_drafter_model of_drafter(weights);
    counted_model counting(inner);
    turns kept(counting, of_drafter);
    using model = continued_drafter<block_drafter_model>;
    auto loop = [&](std::span<token_id const> text, generation_options const& how, enumerating_source& source) {
        auto choices = free_rows(3);  // every branch begins with the same
        budgeted_block_drafter<model, draft::sequential> trees(kept.drafter, choices, budgeted_shape<>(choices, 2));
        return make_speculative<verify::recursive_rejection<law::sequential>>(kept.target, std::move(trees))(text, how,
                                                                                                             source);
    };
    for (auto const& text : texts) {
        auto const law = law_of_loop(loop, text, options, [](auto const&) {});
        EXPECT_NEAR(law.total, 1, 1e-6);
        EXPECT_GT(law.branches, 100U);
        EXPECT_GT(law.accepted, 0.2);
        std::vector<double> found(vocabulary * vocabulary);
        for (auto const& [tokens, p] : law.law)
            found[static_cast<std::size_t>(tokens[0]) * vocabulary + static_cast<std::size_t>(tokens[1])] += p;
        auto const expected = law_of_two(text);
        for (std::size_t k = 0; k < expected.size(); ++k) EXPECT_NEAR(found[k], expected[k], 1e-6) << k;
    }
}

// The default of a chat: ranked verification of stratified draws, short rows, trees by the reach of their nodes. Two
// conversations in turn, so that the caches are cut and go on at each answer, with one controller for all.
TEST_F(continued_turns, have_the_law_of_the_target_by_many_answers) {
    constexpr int runs = 4000;
    transformer inner = new_target();
    block_drafter_model of_drafter(weights);
    short_block_drafter few(of_drafter, 12);
    counted_model counting(inner);
    continued_pair<counted_model, short_block_drafter> kept(counting, few);
    options.max_tokens = 4;
    auto choices = free_rows(8);
    using model = continued_drafter<short_block_drafter>;
    using trees = budgeted_block_drafter<model, draft::stratified, budgeted_reach_shape<>>;
    auto loop = make_speculative<verify::nested_ranked_block<law::stratified>>(
        kept.target, trees(kept.drafter, choices, budgeted_reach_shape<>(choices, 4, 4)));
    std::vector<token_id> const texts[] = {{1, 4, 20, 7}, {1, 4, 31, 2, 2, 9}};
    std::vector<token_id> drawn[2];
    std::int64_t accepted = 0;
    std::int64_t drafted = 0;
    for (int run = 0; run < runs; ++run)
        for (std::size_t k = 0; k < 2; ++k) {
            options.request = static_cast<std::uint32_t>(2 * run) + static_cast<std::uint32_t>(k);
            auto const found = loop(texts[k], options);
            drawn[k].push_back(found.tokens[0] * static_cast<token_id>(vocabulary) + found.tokens[1]);
            accepted += found.metrics.accepted;
            drafted += found.metrics.drafted;
        }
    EXPECT_GT(accepted, runs / 4);
    EXPECT_GT(drafted, 4 * runs);
    chi_squared sum;
    for (std::size_t k = 0; k < 2; ++k) {
        pooled_law const law(law_of_two(texts[k]), runs);
        EXPECT_GT(law.bins(), 20U);
        sum += law.test(drawn[k]);
    }
    EXPECT_LT(chi_squared_test::continued_turns, chi_squared_test::count);
    EXPECT_GT(sum.p_value(), failure_level) << sum.statistic << " of " << sum.freedom;
}

}  // namespace
}  // namespace continued_pair_test
