// `generate --search`: the best trees of every budget, from acceptance rates and costs measured on the two models.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "generate/compare.hpp"
#include "generate/methods.hpp"
#include "multidraft/analysis/configuration_search.hpp"
#include "multidraft/tree/shapes.hpp"

namespace multidraft::examples {

/// What the search measured and what it found, one entry a budget.
struct search_result {
    analysis::rank_rates rates;
    std::vector<std::pair<std::int32_t, double>> target_seconds;
    std::vector<std::pair<std::int32_t, double>> draft_seconds;
    double rest = 0;
    double baseline = 0;  ///< seconds of a token of autoregressive decoding: a call of one row, and drawing from it
    struct entry {
        std::int32_t budget;
        analysis::configuration k_configuration;
        analysis::configuration tree;
        analysis::configuration largest;  ///< the tree that accepts most, whatever it costs
    };
    std::vector<entry> entries;
};

/// The median of some seconds of forward calls of that many rows below a text of 64 tokens.
inline double seconds_of_rows(transformer& model, std::int32_t rows) {
    constexpr std::int32_t context = 64;
    std::vector<token_id> tokens(static_cast<std::size_t>(std::max(rows, context)), 5);
    std::vector<std::int32_t> positions(tokens.size());
    std::iota(positions.begin(), positions.end(), 0);
    model.keep(0, {});
    model.forward(token_batch{std::span(tokens).first(context), std::span(positions).first(context), 0, {}}, {});
    std::iota(positions.begin(), positions.end(), context);
    auto const n = static_cast<std::size_t>(rows);
    std::vector<float> logits(n * static_cast<std::size_t>(model.vocabulary()));
    std::vector<double> seconds;
    for (int run = 0; run < 15; ++run) {
        auto const begin = std::chrono::steady_clock::now();
        model.forward(token_batch{std::span(tokens).first(n), std::span(positions).first(n), context, {}}, logits);
        seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
        model.keep(context, {});
    }
    std::nth_element(seconds.begin(), seconds.begin() + 7, seconds.end());
    return seconds[7];
}

/// Measures the method's rates by rank with wide trees and the costs of both models, then searches every budget.
///
/// Rates by rank hold for methods that try children one by one in their order, whatever siblings follow: recursive
/// rejection, and naive verification of candidates in a fixed order.
inline search_result search(transformer& target, transformer& draft, method const& how,
                            std::vector<prompt_tokens> const& prompts, generation_options const& options,
                            std::int32_t budget) {
    search_result result;
    constexpr std::size_t levels = 8;
    generation_metrics sum;
    // Wide at the root for the ranks, and deep enough for the levels to count.
    for (prompt_tokens const& prompt : prompts)
        sum +=
            how.run(target, draft, parse_shape(how.chains_only ? "chain:4" : "8x2x1x1"), prompt, options, {}).metrics;
    std::vector<double> rates;
    double whole = 0;
    for (std::size_t k = 0; k < sum.tried_at_rank.size(); ++k) {
        rates.push_back(std::min(sum.acceptance_rate_of_rank(k), 1 - whole));
        whole += rates.back();
    }
    result.rates.assign(levels, rates);
    for (std::int32_t rows = 1; rows < 2 * (budget + 1); rows *= 2) {
        result.target_seconds.emplace_back(rows, seconds_of_rows(target, rows));
        result.draft_seconds.emplace_back(rows, seconds_of_rows(draft, rows));
    }
    double const ours = sum.sample_seconds + sum.mask_seconds + sum.verify_seconds + sum.cache_seconds;
    double const per_node = sum.drafted > 0 ? ours / static_cast<double>(sum.drafted) : 0;
    analysis::step_costs const costs{analysis::call_cost(result.target_seconds),
                                     analysis::call_cost(result.draft_seconds), per_node, per_node};
    result.rest = per_node;
    result.baseline = result.target_seconds.front().second + per_node;
    for (std::int32_t nodes = 1; nodes <= budget; nodes = nodes < 4 ? nodes + 1 : nodes * 2)
        result.entries.push_back(
            {nodes, analysis::best_k_configuration(result.rates, nodes, costs),
             analysis::best_tree(result.rates, nodes, costs),
             analysis::evaluate(analysis::optimal_tree(result.rates, nodes).shape, result.rates, costs)});
    return result;
}

inline void print_search(search_result const& found, method const& how) {
    std::printf("%s\nacceptance by rank:", how.name.c_str());
    for (double const rate : found.rates.front()) std::printf(" %.3f", rate);
    std::printf("\nmilliseconds by rows, target:");
    for (auto const& [rows, seconds] : found.target_seconds) std::printf("  %d: %.3f", rows, 1e3 * seconds);
    std::printf("\n                       draft:");
    for (auto const& [rows, seconds] : found.draft_seconds) std::printf("  %d: %.3f", rows, 1e3 * seconds);
    std::printf("\nmicroseconds of the library by node: %.1f\n\n", 1e6 * found.rest);
    std::printf("%6s  %-27s  %-27s  %s\n", "budget", "fastest k1 x k2 x ..", "fastest tree", "tree that accepts most");
    std::printf("%6s  %-9s %9s %7s  %-9s %9s %7s  %9s %7s\n", "", "", "block eff", "speed", "nodes", "block eff",
                "speed", "block eff", "speed");
    for (auto const& e : found.entries)
        std::printf("%6d  %-9s %9.3f %6.2fx  %-9d %9.3f %6.2fx  %9.3f %6.2fx  %s\n", e.budget,
                    to_string(e.k_configuration.shape).c_str(), e.k_configuration.block_efficiency,
                    e.k_configuration.tokens_per_second() * found.baseline, e.tree.shape.size() - 1,
                    e.tree.block_efficiency, e.tree.tokens_per_second() * found.baseline, e.largest.block_efficiency,
                    e.largest.tokens_per_second() * found.baseline, to_string(e.largest.shape).c_str());
    std::printf(
        "\nbudget: drafted nodes at most; 0 drafts nothing. Speed-ups are predicted from the rates and costs above.\n");
}

inline nlohmann::ordered_json to_json(search_result const& found, method const& how) {
    auto const of = [&](analysis::configuration const& c) {
        return nlohmann::ordered_json{{"tree", to_string(c.shape)},
                                      {"block_efficiency", c.block_efficiency},
                                      {"speed_up", c.tokens_per_second() * found.baseline}};
    };
    auto entries = nlohmann::ordered_json::array();
    for (auto const& e : found.entries)
        entries.push_back({{"budget", e.budget},
                           {"k_configuration", of(e.k_configuration)},
                           {"tree", of(e.tree)},
                           {"most_accepting", of(e.largest)}});
    return {{"method", how.name},
            {"acceptance_by_rank", found.rates.front()},
            {"target_seconds_by_rows", found.target_seconds},
            {"draft_seconds_by_rows", found.draft_seconds},
            {"best", entries}};
}

}  // namespace multidraft::examples
