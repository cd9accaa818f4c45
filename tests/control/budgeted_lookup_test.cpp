// Trees of a block drafter or of the text itself: the target's law, and that repetitions are drafted from the text.
#include "multidraft/control/budgeted_lookup_shape.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <type_traits>
#include <vector>

#include "control/known_world.hpp"
#include "control/repeating_text.hpp"
#include "decode/text_laws.hpp"
#include "multidraft/control/budgeted_block_drafter.hpp"
#include "multidraft/decode/autoregressive.hpp"
#include "multidraft/decode/speculative.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/verify/naive.hpp"
#include "multidraft/verify/nested_ranked_block.hpp"
#include "multidraft/verify/ranked.hpp"
#include "multidraft/verify/ranked_block.hpp"
#include "support/table_block.hpp"
#include "support/table_model.hpp"

namespace multidraft {
namespace budgeted_lookup_test {
namespace {

using testing::conditional_block;
using testing::costs;
using testing::distance;
using testing::law_of_loop;
using testing::random_conditional;
using testing::repeating;
using testing::table_block;
using testing::table_model;
using testing::true_law;

constexpr std::int32_t vocabulary = 3;
std::vector<token_id> const prompt{1, 2, 1, 0, 1, 2};

/// Two of three choices are by a number of the trees so far: all kinds of tree occur.
struct restless : testing::fresh_with_rates {
    using fresh_with_rates::fresh_with_rates;
    void start() {
        fresh_with_rates::start();
        seen = first;
    }
    [[nodiscard]] std::size_t choose(std::span<tree_offer const> offers) {
        std::size_t const by_worth = fresh::choose(offers);
        return seen % 3 == 0 ? by_worth : (seen >> 20U) % offers.size();
    }
    void learn(step_outcome const& outcome) {
        fresh::learn(outcome);
        for (token_id const x : outcome.tree.tokens)
            seen = (seen ^ static_cast<std::uint64_t>(x + 2)) * 0x9e3779b97f4a7c15U;
        seen ^= seen >> 29U;
    }
    static constexpr std::uint64_t first = 0x9e3779b97f4a7c15U;
    std::uint64_t seen = first;
};

/// Counts the trees that are the text's own.
template <class Chooser>
struct counting_shape : budgeted_lookup_shape<Chooser> {
    using base = budgeted_lookup_shape<Chooser>;
    counting_shape(Chooser& choices, index_t children, match_rates& rates, lookup_options const& options, int& count)
        : base(choices, children, rates, options), given_trees(&count) {}
    template <class... Args>
    void start(Args&&... args) {
        base::start(args...);
        if (!this->given(0).empty()) ++*given_trees;
    }
    int* given_trees;
};

template <class Verifier, bool ByReach = false, class Model>
void expect_exact(Model& model, step_times const& times, int& given_trees) {
    auto const p = random_conditional(vocabulary, 11);
    table_model<double> target(vocabulary, p);
    for (sampling_params const& w :
         std::vector<sampling_params>{{}, {.temperature = 0.6F, .top_k = 2}, {.temperature = 0}}) {
        match_rates rates;
        restless choices(times, {.nodes = 4, .memory = 2, .credit = 1e9, .learns_times = false}, rates);
        generation_options options;
        options.max_tokens = 3;
        options.sampling = w;
        lookup_options const look{{4, 1}, 3, 3};
        auto const shape = [&] {
            if constexpr (ByReach)
                return budgeted_reach_shape<restless, counting_shape<restless>>(choices, 2, 2, rates, look,
                                                                                given_trees);
            else
                return counting_shape<restless>(choices, 2, rates, look, given_trees);
        }();
        using drafter =
            budgeted_block_drafter<Model, draft::stratified, std::remove_const_t<decltype(shape)>, restless>;
        auto loop = make_speculative<Verifier>(target, drafter(model, choices, shape));
        auto const found = law_of_loop(loop, prompt, options, [](generation const&) {});
        EXPECT_NEAR(found.total, 1.0, 1e-12);
        EXPECT_LT(distance(found.law, true_law(p, vocabulary, prompt, 3, w)), 1e-12);
    }
}

TEST(budgeted_lookup_shape, is_exact_with_trees_of_rows_and_of_the_text) {
    int given_trees = 0;
    for (step_times const& times : costs()) {
        conditional_block with_parents(vocabulary, 12, 2);
        table_block block(vocabulary, 12, 2);
        expect_exact<verify::ranked_block<law::stratified>>(with_parents, times, given_trees);
        expect_exact<verify::ranked_block<law::stratified>, true>(with_parents, times, given_trees);
        expect_exact<verify::ranked<law::stratified>>(with_parents, times, given_trees);
        expect_exact<verify::naive<law::stratified>>(block, times, given_trees);
    }
    EXPECT_GT(given_trees, 100);
}

TEST(budgeted_lookup_shape, drafts_repetitions_from_the_text) {
    // One text of a target that repeats itself 9 times of 10 says little: the bounds hold for one of three at
    // temperature 1.
    constexpr double often = 0.95;
    std::vector<token_id> const begin{1, 2, 3, 4, 5, 6, 7, 8};
    for (float const temperature : {0.0F, 1.0F})
        for (std::uint64_t seed = 0; seed < 10; ++seed) {
            generation_options options;
            options.max_tokens = 200;
            options.seed = seed;
            options.sampling.temperature = temperature;
            std::vector<double> tokens_a_call;
            for (double const rate : {0.0, often}) {
                table_model<double> target(64, repeating(rate));
                conditional_block block(64, 12, 6);
                match_rates rates;
                // Rows that cost a third of a call.
                budget_controller choices(costs()[1], {.nodes = 8, .learns_times = false});
                int given_trees = 0;
                using shape = counting_shape<budget_controller>;
                using drafter = budgeted_block_drafter<conditional_block, draft::stratified, shape>;
                auto loop = make_speculative<verify::nested_ranked_block<law::stratified>>(
                    target, drafter(block, choices, shape(choices, 2, rates, {}, given_trees)));
                auto const found = loop(begin, options);
                tokens_a_call.push_back(static_cast<double>(found.metrics.tokens) /
                                        static_cast<double>(found.metrics.target_calls));
                if (rate == often) {
                    EXPECT_GT(given_trees, 10) << temperature;
                }
                if (temperature == 0) {
                    EXPECT_EQ(found.tokens, autoregressive(target, begin, options).tokens);
                }
            }
            EXPECT_GT(tokens_a_call[1], 2.5) << temperature << ", seed " << seed;
            EXPECT_GT(tokens_a_call[1], tokens_a_call[0] + 1) << temperature << ", seed " << seed;
        }
}

TEST(budgeted_lookup_shape, names_bad_input) {
    match_rates rates;
    budget_controller choices(costs()[0]);
    auto const message = [&](index_t children, lookup_options const& options) -> std::string {
        try {
            budgeted_lookup_shape<> const shape(choices, children, rates, options);
        } catch (invalid_input const& e) {
            return e.what();
        }
        return "nothing was thrown";
    };
    EXPECT_NE(message(0, {}).find("children = 0"), std::string::npos);
    EXPECT_NE(message(2, {{4, 1}, 0, 3}).find("paths = 0"), std::string::npos);
}

}  // namespace
}  // namespace budgeted_lookup_test
}  // namespace multidraft
