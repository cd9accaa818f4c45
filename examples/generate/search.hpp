// `generate --search`: the best trees of every budget, from measurements of the two models.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "call_seconds.hpp"
#include "generate/compare.hpp"
#include "generate/methods.hpp"
#include "multidraft/analysis/bootstrap.hpp"
#include "multidraft/analysis/configuration_search.hpp"
#include "multidraft/tree/shape_text.hpp"
#include "multidraft/tree/shapes.hpp"

namespace multidraft::examples {

/// A tree that was run on the prompts.
struct measured_tree {
    std::string tree;
    double predicted = 0;  ///< block efficiency by the rates; 0 where none was predicted
    generation_metrics sum;
    std::vector<generation_metrics> each;

    [[nodiscard]] analysis::estimate block_efficiency() const {
        return analysis::bootstrap(each.size(), [&](std::span<std::size_t const> runs) {
            generation_metrics total;
            for (std::size_t const i : runs) total += each[i];
            return total.block_efficiency();
        });
    }
};

/// The measurements and results of the search.
struct search_result {
    /// Whether rates by rank carry over from tree to tree for the method; else trees are not predicted, only measured.
    bool predicts = false;
    analysis::rank_rates rates;  ///< by depth and rank; rough where it does not
    std::vector<std::pair<std::int32_t, double>> target_seconds;
    std::vector<std::pair<std::int32_t, double>> draft_seconds;
    double rest = 0;
    double baseline = 0;  ///< seconds of a token of autoregressive decoding: a call of one row, and drawing from it
    struct entry {
        std::int32_t budget;
        analysis::configuration k_configuration;
        analysis::configuration tree;
        analysis::configuration largest;  ///< the tree with the most accepted tokens, regardless of cost
    };
    std::vector<entry> entries;                                              ///< by nodes
    std::vector<std::pair<std::int32_t, analysis::configuration>> of_paths;  ///< by K = k1 k2 ..
    generation_metrics autoregressive;                                       ///< on the same prompts
    std::vector<measured_tree> measured;                                     ///< the fastest first
};

/// Whether the probability that the child of a rank is accepted is the same in every tree: the method tries children
/// one by one in order, and its decision on one depends on no later sibling and on nothing below.
inline bool rank_rates_carry_over(method const& how) {
    constexpr std::array<std::string_view, 7> names{"recursive_rejection/iid",
                                                    "recursive_rejection/sequential",
                                                    "recursive_rejection/gumbel_top_k",
                                                    "speculative_sampling/iid",
                                                    "naive/iid",
                                                    "naive/sequential",
                                                    "naive/deterministic"};
    return std::find(names.begin(), names.end(), how.name) != names.end();
}

/// Counts, by depth and rank, of nodes of accepted paths that had such a child, and of those that were accepted.
class rank_counts {
public:
    void operator()(step_view const& step) {
        node_id node = 0;
        for (std::size_t d = 0; d <= step.path.size(); ++d) {
            node_range const children = step.tree.children(node);
            if (children.count == 0) return;
            if (d >= tried_.size()) {
                tried_.resize(d + 1);
                accepted_.resize(d + 1);
            }
            auto const count = static_cast<std::size_t>(children.count);
            if (tried_[d].size() < count) {
                tried_[d].resize(count, 0);
                accepted_[d].resize(count, 0);
            }
            for (std::size_t k = 0; k < count; ++k) ++tried_[d][k];
            if (d == step.path.size()) return;
            node = step.path[d];
            ++accepted_[d][static_cast<std::size_t>(node - children.first)];
        }
    }

    /// Rates of `levels` levels with the ranks of the root. A depth with too few observations, or too few ranks, gets
    /// the root's rates scaled by the ratio of its own first ranks to the root's. Deeper levels equal the last one
    /// observed.
    [[nodiscard]] analysis::rank_rates rates(std::size_t levels) const {
        analysis::rank_rates result;
        if (tried_.empty()) return analysis::rank_rates(levels);
        std::size_t const ranks = tried_[0].size();
        for (std::size_t d = 0; d < levels; ++d) {
            std::size_t at = std::min(d, tried_.size() - 1);
            while (at > 0 && tried_[at][0] < 64) --at;
            double own = 0;
            double of_root = 0;
            for (std::size_t k = 0; k < tried_[at].size() && k < ranks && tried_[at][k] >= 64; ++k) {
                own += rate(at, k);
                of_root += rate(0, k);
            }
            double const factor = at > 0 && of_root > 0 ? own / of_root : 1.0;
            std::vector<double> row;
            double whole = 0;
            for (std::size_t k = 0; k < ranks; ++k) {
                row.push_back(std::clamp(factor * rate(0, k), 0.0, 1 - whole));
                whole += row.back();
            }
            result.push_back(std::move(row));
        }
        return result;
    }

private:
    [[nodiscard]] double rate(std::size_t d, std::size_t k) const {
        return tried_[d][k] > 0 ? static_cast<double>(accepted_[d][k]) / static_cast<double>(tried_[d][k]) : 0.0;
    }

    std::vector<std::vector<std::int64_t>> tried_, accepted_;
};

/// Whether the method accepts the tree: chains, chains that branch at the root, at most two children per node, or any.
inline bool takes(method const& how, topology const& shape) {
    for (node_id v = 0; v < shape.size(); ++v) {
        std::int32_t const children = shape.child_count(v);
        if (how.chains_only && children > 1) return false;
        if (how.forks_only && v > 0 && children > 1) return false;
        if (how.most_children > 0 && children > how.most_children) return false;
    }
    return true;
}

/// k-configurations of at most `nodes` nodes and eight levels that the method takes, their factors not increasing
/// ([MCSD] 4.4 finds those best) and of a few sizes.
inline std::vector<topology> trees_to_try(method const& how, std::int32_t nodes) {
    std::vector<topology> found;
    std::vector<std::int32_t> factors;
    constexpr std::array<std::int32_t, 9> sizes{1, 2, 3, 4, 6, 8, 12, 16, 32};
    auto const deeper = [&](auto const& self, std::int32_t width, std::int32_t used) -> void {
        if (factors.size() == 8) return;
        for (std::int32_t const k : sizes) {
            if ((!factors.empty() && k > factors.back()) || used + width * k > nodes) break;
            factors.push_back(k);
            topology shape = branching(factors);
            if (takes(how, shape)) found.push_back(std::move(shape));
            self(self, width * k, used + width * k);
            factors.pop_back();
        }
    };
    deeper(deeper, 1, 0);
    return found;
}

/// The nodes of the largest tree that a search runs.
inline std::int32_t most_nodes_of_search(std::int32_t budget) {
    return std::max(budget, parse_shape("4x4x2x1x1x1").size()) + 1;
}

/// Runs a tree on all prompts.
inline measured_tree measure(transformer& target, transformer& draft, method const& how, topology const& shape,
                             std::vector<prompt_tokens> const& prompts, generation_options const& options) {
    measured_tree result;
    result.tree = to_string(shape);
    for (prompt_tokens const& prompt : prompts) {
        result.each.push_back(how.run(target, draft, shape, prompt, options, {}).metrics);
        result.sum += result.each.back();
    }
    return result;
}

/// Measures rates by rank and the costs of both models, and looks for the best trees of every budget.
///
/// Where rates by rank carry over (`rank_rates_carry_over`), trees are predicted, and the best three of the whole
/// budget are run. For other methods rates do not hold for trees that were not run. There the predictions only select
/// `most_measured` trees of all depths and widths, and measured results are reported.
inline search_result search(transformer& target, transformer& draft, method const& how,
                            std::vector<prompt_tokens> const& prompts, generation_options const& options,
                            std::int32_t budget, std::size_t most_measured = 12) {
    constexpr std::size_t levels = 8;
    search_result result;
    result.predicts = rank_rates_carry_over(how);
    rank_counts counts;
    generation_options counting = options;
    counting.observer = [&](step_view const& step) { counts(step); };
    generation_metrics sum;
    // Wide at the root for the ranks, and deep for the rates below.
    std::vector<std::string> shapes{"chain:8"};
    if (!how.chains_only && how.most_children == 0)
        shapes = {std::to_string(std::clamp(budget, 1, 32)), how.forks_only ? "fork:4x6" : "4x4x2x1x1x1"};
    else if (how.most_children == 2)
        shapes = {"2x2x2x1x1x1"};
    std::size_t const runs = result.predicts ? 3 : most_measured;
    steps_bar bar((shapes.size() + runs + 1) * prompts.size());
    for (std::string const& shape : shapes)
        for (prompt_tokens const& prompt : prompts) {
            sum += how.run(target, draft, parse_shape(shape), prompt, counting, {}).metrics;
            bar.step("rates");
        }
    result.rates = counts.rates(levels);
    for (std::int32_t rows = 1; rows < 2 * (budget + 1); rows *= 2) {
        result.target_seconds.emplace_back(rows, median_call_seconds(target, rows));
        result.draft_seconds.emplace_back(rows, median_call_seconds(draft, rows));
    }
    double const ours = sum.time.sample + sum.time.mask + sum.time.verify + sum.time.cache;
    double const per_node = sum.drafted > 0 ? ours / static_cast<double>(sum.drafted) : 0;
    analysis::step_costs const costs{analysis::call_cost(result.target_seconds),
                                     analysis::call_cost(result.draft_seconds), per_node, per_node};
    result.rest = per_node;
    result.baseline = result.target_seconds.front().second + per_node;

    // By name: the fastest first, by prediction.
    std::vector<analysis::configuration> candidates;
    if (result.predicts) {
        for (std::int32_t nodes = 1; nodes <= budget; nodes = nodes < 4 ? nodes + 1 : nodes * 2)
            result.entries.push_back(
                {nodes, analysis::best_k_configuration(result.rates, nodes, costs),
                 analysis::best_tree(result.rates, nodes, costs),
                 analysis::evaluate(analysis::optimal_tree(result.rates, nodes).shape, result.rates, costs)});
        for (std::int32_t paths = 1; paths <= std::min(budget, 32); paths *= 2)
            result.of_paths.emplace_back(paths,
                                         analysis::best_k_configuration_of_candidates(result.rates, paths, costs));
        for (auto const& e : result.entries)
            for (auto const* one : {&e.k_configuration, &e.tree, &e.largest}) candidates.push_back(*one);
        for (auto const& [paths, one] : result.of_paths) candidates.push_back(one);
    } else {
        for (topology& shape : trees_to_try(how, budget))
            candidates.push_back(analysis::evaluate(std::move(shape), result.rates, costs));
    }
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](auto const& a, auto const& b) { return a.tokens_per_second() > b.tokens_per_second(); });
    std::map<std::string, bool> known;
    std::vector<analysis::configuration> chosen;
    auto const offer = [&](analysis::configuration const& one) {
        if (chosen.size() < runs && one.shape.size() > 1 && known.emplace(to_string(one.shape), true).second)
            chosen.push_back(one);
    };
    if (!result.predicts) {
        // The best guess of every depth first, so that a wrong guess of the rates costs no depth.
        for (std::int32_t depth = 1; depth <= static_cast<std::int32_t>(levels); ++depth)
            for (auto const& one : candidates)
                if (one.shape.max_depth() == depth) {
                    offer(one);
                    break;
                }
    }
    for (auto const& one : candidates) offer(one);

    method const& plain = all_methods().front();
    for (prompt_tokens const& prompt : prompts) {
        result.autoregressive += plain.run(target, draft, topology(), prompt, options, {}).metrics;
        bar.step(plain.name);
    }
    for (auto const& one : chosen) {
        measured_tree run = measure(target, draft, how, one.shape, prompts, options);
        if (result.predicts) run.predicted = one.block_efficiency;
        result.measured.push_back(std::move(run));
        for (std::size_t i = 0; i < prompts.size(); ++i) bar.step(result.measured.back().tree);
    }
    std::stable_sort(result.measured.begin(), result.measured.end(), [](auto const& a, auto const& b) {
        return a.sum.tokens_per_second() > b.sum.tokens_per_second();
    });
    return result;
}

inline void print_search(search_result const& found, method const& how) {
    std::printf("%s%s\n", how.name.c_str(), how.lossless ? "" : " (lossy: its text is not the target's)");
    if (found.predicts) {
        std::printf("acceptance by rank, at the root:");
        for (double const rate : found.rates.front()) std::printf(" %.3f", rate);
        std::printf("\nacceptance by depth:");
        for (auto const& row : found.rates) std::printf(" %.3f", std::accumulate(row.begin(), row.end(), 0.0));
        std::printf("\n");
    }
    std::printf("milliseconds by rows, target:");
    for (auto const& [rows, seconds] : found.target_seconds) std::printf("  %d: %.3f", rows, 1e3 * seconds);
    std::printf("\n                       draft:");
    for (auto const& [rows, seconds] : found.draft_seconds) std::printf("  %d: %.3f", rows, 1e3 * seconds);
    std::printf("\nmicroseconds of the library by node: %.1f\n\n", 1e6 * found.rest);
    if (found.predicts) {
        std::printf("%6s  %-27s  %-27s  %s\n", "budget", "fastest k1 x k2 x ..", "fastest tree",
                    "tree that accepts most");
        std::printf("%6s  %-9s %9s %7s  %-9s %9s %7s  %9s %7s\n", "", "", "block eff", "speed", "nodes", "block eff",
                    "speed", "block eff", "speed");
        for (auto const& e : found.entries)
            std::printf("%6d  %-9s %9.3f %6.2fx  %-9d %9.3f %6.2fx  %9.3f %6.2fx  %s\n", e.budget,
                        to_string(e.k_configuration.shape).c_str(), e.k_configuration.block_efficiency,
                        e.k_configuration.tokens_per_second() * found.baseline, e.tree.shape.size() - 1,
                        e.tree.block_efficiency, e.tree.tokens_per_second() * found.baseline,
                        e.largest.block_efficiency, e.largest.tokens_per_second() * found.baseline,
                        to_string(e.largest.shape).c_str());
        std::printf("\n%6s  %s\n", "paths", "fastest k1 x k2 x .. of at most so many");
        for (auto const& [paths, one] : found.of_paths)
            std::printf("%6d  %-15s %9.3f %6.2fx\n", paths, to_string(one.shape).c_str(), one.block_efficiency,
                        one.tokens_per_second() * found.baseline);
        std::printf(
            "\nbudget: drafted nodes at most; 0 drafts nothing. Speed-ups are predicted from the rates and costs "
            "above.\n\n");
    } else {
        std::printf(
            "What this method accepts in one tree does not follow from another: nothing is predicted, trees are "
            "run.\n\n");
    }
    std::printf("%-21s %-22s %9s  %9s  %s\n", "measured tree", "block efficiency", found.predicts ? "predicted" : "",
                "tokens/s", "speed-up");
    double const base = found.autoregressive.tokens_per_second();
    for (auto const& one : found.measured) {
        auto const efficiency = one.block_efficiency();
        std::printf("%-21s %6.3f [%.3f, %.3f] ", one.tree.c_str(), efficiency.value, efficiency.low, efficiency.high);
        if (one.predicted > 0)
            std::printf("%9.3f", one.predicted);
        else
            std::printf("%9s", "");
        double const speed = one.sum.tokens_per_second();
        std::printf("  %9.1f  %6.2fx\n", speed, base > 0 ? speed / base : 0.0);
    }
    std::printf("%-21s %6.3f %15s %9s  %9.1f  %6.2fx\n", "autoregressive", 1.0, "", "", base, 1.0);
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
    auto of_paths = nlohmann::ordered_json::array();
    for (auto const& [paths, one] : found.of_paths)
        of_paths.push_back({{"paths", paths}, {"k_configuration", of(one)}});
    auto measured = nlohmann::ordered_json::array();
    double const base = found.autoregressive.tokens_per_second();
    for (auto const& one : found.measured) {
        auto const efficiency = one.block_efficiency();
        nlohmann::ordered_json row{{"tree", one.tree},
                                   {"block_efficiency", efficiency.value},
                                   {"low", efficiency.low},
                                   {"high", efficiency.high},
                                   {"tokens_per_second", one.sum.tokens_per_second()},
                                   {"speed_up", base > 0 ? one.sum.tokens_per_second() / base : 0.0}};
        if (one.predicted > 0) row["predicted_block_efficiency"] = one.predicted;
        measured.push_back(std::move(row));
    }
    nlohmann::ordered_json result{{"method", how.name}, {"lossless", how.lossless}, {"predicts", found.predicts}};
    if (found.predicts) {
        result["acceptance_by_rank"] = found.rates.front();
        result["acceptance_by_depth_and_rank"] = found.rates;
    }
    result["target_seconds_by_rows"] = found.target_seconds;
    result["draft_seconds_by_rows"] = found.draft_seconds;
    if (found.predicts) {
        result["best"] = entries;
        result["best_by_paths"] = of_paths;
    }
    result["measured"] = measured;
    return result;
}

}  // namespace multidraft::examples
