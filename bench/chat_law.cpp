// Whether the answers of a chat model have its distribution when a block drafter drafts: the first two tokens of many
// answers against the target's rows.
//
//     multidraft_chat_law MODEL.gguf DRAFTER --prompt TEXT --prompt TEXT --runs 20000
//
// The drafter and its trees are those of `generate --chat`, but rows cost nothing, so that every step drafts. Prints an
// object for each question: the chi-squared statistic of pairs of first tokens, pooled into bins of ten and more
// expected answers, by float64 probabilities of the target's logits.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iostream>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "generate/continued_text.hpp"
#include "multidraft/control/budget_controller.hpp"
#include "multidraft/control/budgeted_block_drafter.hpp"
#include "multidraft/decode/language_model.hpp"
#include "multidraft/decode/speculative.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/verify/nested_ranked_block.hpp"
#include "support/chi_squared.hpp"
#include "transformer/block_drafter.hpp"
#include "transformer/chat_markup.hpp"
#include "transformer/gguf.hpp"
#include "transformer/tokenizer.hpp"
#include "transformer/transformer.hpp"

namespace {

using namespace multidraft;
using namespace multidraft::examples;

/// Probabilities of the token after a text.
std::vector<double> row_after(transformer& target, std::span<token_id const> text, double temperature) {
    std::vector<float> logits(static_cast<std::size_t>(target.vocabulary()));
    std::vector<std::int32_t> positions;
    for (std::size_t k = 0; k < text.size(); ++k) positions.push_back(static_cast<std::int32_t>(k));
    target.keep(0, {});
    target.forward(token_batch{text, positions, 0, {}}, logits);
    std::vector<double> p;
    double const most = *std::max_element(logits.begin(), logits.end());
    double sum = 0;
    for (float const logit : logits) sum += p.emplace_back(std::exp((static_cast<double>(logit) - most) / temperature));
    for (double& x : p) x /= sum;
    return p;
}

/// The pairs of first tokens that are expected often enough to be counted alone; others share what is left of their
/// first token, or of all.
class pairs {
public:
    pairs(transformer& target, std::vector<token_id> text, double temperature, double runs) {
        auto const first = row_after(target, text, temperature);
        law_.push_back(1);
        text.push_back(0);
        for (std::size_t a = 0; a < first.size(); ++a) {
            if (first[a] * runs < least) continue;
            std::size_t const rest = add({static_cast<token_id>(a), none}, 0, first[a]);
            text.back() = static_cast<token_id>(a);
            auto const second = row_after(target, text, temperature);
            for (std::size_t b = 0; b < second.size(); ++b)
                if (first[a] * second[b] * runs >= least)
                    add({static_cast<token_id>(a), static_cast<token_id>(b)}, rest, first[a] * second[b]);
        }
        // What is left by rounding is no mass.
        for (double& p : law_)
            if (p * runs < 1e-6) p = 0;
    }
    [[nodiscard]] std::vector<double> const& law() const noexcept { return law_; }
    [[nodiscard]] token_id of(token_id a, token_id b) const {
        for (auto const& pair : {std::pair(a, b), std::pair(a, none)})
            if (auto const found = number_.find(pair); found != number_.end())
                return static_cast<token_id>(found->second);
        return 0;
    }

private:
    static constexpr double least = 10;  ///< expected answers

    std::size_t add(std::pair<token_id, token_id> pair, std::size_t from, double mass) {
        number_[pair] = law_.size();
        law_[from] -= mass;
        law_.push_back(mass);
        return law_.size() - 1;
    }

    std::map<std::pair<token_id, token_id>, std::size_t> number_;
    std::vector<double> law_;
};

int run(int argc, char** argv) {
    CLI::App app("The law of a chat model's answers with drafts");
    std::string model, drafter;
    std::vector<std::string> prompts;
    std::int32_t runs = 20000, nodes = 8, candidates = 256;
    generation_options options;
    options.max_tokens = 4;  // so that the first steps draft two levels and more
    transformer_options how;
    app.add_option("model", model, "GGUF file with a ChatML template")->required();
    app.add_option("drafter", drafter, "Directory of its block drafter")->required();
    app.add_option("--prompt", prompts, "Question")->required();
    app.add_option("--runs", runs, "Answers to each")->check(CLI::Range(100, 1'000'000));
    app.add_option("--nodes", nodes, "Of a tree at most")->check(CLI::Range(1, 64));
    app.add_option("--candidates", candidates, "Tokens of a row of the drafter")->check(CLI::PositiveNumber);
    app.add_option("--temperature", options.sampling.temperature, "Above 0")->check(CLI::PositiveNumber);
    app.add_option("--seed", options.seed, "Of the draws");
    app.add_option("--threads", how.threads, "Threads; 0: all cores");
    CLI11_PARSE(app, argc, argv);
    options.draft_sampling = options.sampling;

    transformer target(model, how);
    tokenizer const words(model, target.vocabulary());
    chat_markup const markup(gguf_file(model).text("tokenizer.chat_template").value_or(""), words);
    block_drafter_model rows(std::make_shared<block_drafter_weights const>(drafter, target.weights(), how));
    short_block_drafter few(rows, candidates);
    for (std::string const& prompt : prompts) {
        std::vector<token_id> const text = markup.ask(prompt);
        pairs const expected(target, text, static_cast<double>(options.sampling.temperature), runs);

        target.expose_features(rows.weights()->target_layers());
        continued_pair<transformer, short_block_drafter> kept(target, few);
        budget_controller choices({analysis::call_cost({{1, 1.0}, {64, 1.01}}), analysis::call_cost({{1, 0.01}}), {{}}},
                                  {.nodes = nodes, .learns_times = false});
        using trees =
            budgeted_block_drafter<continued_drafter<short_block_drafter>, draft::stratified, budgeted_reach_shape<>>;
        auto loop = make_speculative<verify::nested_ranked_block<law::stratified>>(
            kept.target, trees(kept.drafter, choices, budgeted_reach_shape<>(choices, 4, rows.block_size())));
        std::vector<token_id> drawn;
        generation_metrics sum;
        for (std::int32_t k = 0; k < runs; ++k) {
            options.request = static_cast<std::uint32_t>(k);
            auto const found = loop(text, options);
            token_id const first = found.tokens.front();
            drawn.push_back(expected.of(first, found.tokens.size() > 1 ? found.tokens[1] : none));
            sum += found.metrics;
        }
        testing::pooled_law const bins(expected.law(), runs);
        testing::chi_squared const test = bins.test(drawn);
        nlohmann::ordered_json const shown{{"prompt", prompt},
                                           {"temperature", options.sampling.temperature},
                                           {"answers", runs},
                                           {"accepted", sum.accepted},
                                           {"drafted", sum.drafted},
                                           {"target_calls", sum.target_calls},
                                           {"bins", bins.bins() - 1},
                                           {"chi_squared", test.statistic},
                                           {"degrees_of_freedom", test.freedom},
                                           {"p_value", test.p_value()}};
        std::cout << shown.dump() << std::endl;
    }
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run(argc, argv);
    } catch (std::exception const& error) {
        std::cerr << "multidraft_chat_law: " << error.what() << '\n';
        return 1;
    }
}
