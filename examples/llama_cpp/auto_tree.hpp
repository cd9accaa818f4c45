// `--tree auto`: the fastest tree by the measured costs of the two models and their agreement on this prompt.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "llama_cpp/decoder.hpp"
#include "llama_cpp/methods.hpp"
#include "multidraft/analysis/configuration_search.hpp"
#include "multidraft/tree/shapes.hpp"

namespace multidraft::examples {

/// Seconds of a forward call of 1, 2, 4, .. rows behind a prompt: of each the median of three, the first call of that
/// size not among them. Ends at `most` rows, or where a call costs more than `dearest` calls of one row.
inline std::vector<std::pair<std::int32_t, double>> seconds_by_rows(llama_decoder& model,
                                                                    std::span<token_id const> text, std::int32_t most,
                                                                    double dearest) {
    std::vector<std::pair<std::int32_t, double>> points;
    auto const room = model.context_limit() - most;
    auto const context = std::clamp(static_cast<std::int32_t>(text.size()), 1, std::max(1, room));
    std::vector<token_id> tokens(static_cast<std::size_t>(context + most), text.back());
    std::copy_n(text.begin(), context, tokens.begin());
    std::vector<std::int32_t> positions(tokens.size());
    std::iota(positions.begin(), positions.end(), 0);
    auto const part = [&](auto const& all, std::int32_t first, std::int32_t count) {
        return std::span(all).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
    };
    model.keep(0, {});
    model.forward({part(tokens, 0, context), part(positions, 0, context), 0, {}}, {});
    for (std::int32_t rows = 1; rows <= most; rows *= 2) {
        std::vector<double> seconds;
        for (int run = 0; run < 4; ++run) {
            auto const begin = std::chrono::steady_clock::now();
            static_cast<void>(model.forward_in_place(
                {part(tokens, context, rows), part(positions, context, rows), context, {}}, rows));
            seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
            model.keep(context, {});
        }
        std::sort(seconds.begin() + 1, seconds.end());
        points.emplace_back(rows, seconds[2]);
        if (points.back().second > dearest * points.front().second) break;
    }
    model.keep(0, {});
    return points;
}

/// The measurements and the choice.
struct chosen_tree {
    topology shape;  ///< the root alone if one token per call is fastest
    double block_efficiency = 1;
    double speed_up = 1;  ///< over one token per call, by the measured costs
    double seconds = 0;   ///< that the choice took
};

/// Chooses among trees of at most `budget` nodes below the root. A short text is generated with a wide tree for the
/// rates by rank: they hold for methods that try children one by one, and approximate those of others.
inline chosen_tree choose_tree(llama_decoder& target, llama_decoder& draft, llama_method const& how,
                               std::span<token_id const> prompt, generation_options options, std::int32_t budget) {
    constexpr double dearest = 8;  // no tree pays for a call that costs as much: eight tokens per call are rare
    auto const begin = std::chrono::steady_clock::now();
    auto const target_seconds = seconds_by_rows(target, prompt, budget + 1, dearest);
    auto const draft_seconds = seconds_by_rows(draft, prompt, budget + 1, dearest);

    options.max_tokens = 48;
    options.stop_tokens.clear();
    options.observer = {};
    bool const chains = how.trees == allowed_trees::chains;
    auto const m = how.run(target, &draft, fitted(how, parse_shape("4x2x1x1")), prompt, options, {}).metrics;
    std::vector<double> by_rank;
    double whole = 0;
    for (std::size_t k = 0; k < m.tried_at_rank.size(); ++k) {
        by_rank.push_back(std::clamp(m.acceptance_rate_of_rank(k), 0.0, 1 - whole));
        whole += by_rank.back();
    }
    constexpr std::size_t levels = 8;
    analysis::rank_rates const rates(levels, by_rank);
    double const ours = m.sample_seconds + m.mask_seconds + m.verify_seconds + m.cache_seconds;
    double const per_node = m.drafted > 0 ? ours / static_cast<double>(m.drafted) : 0;
    analysis::step_costs const costs{analysis::call_cost(target_seconds), analysis::call_cost(draft_seconds), per_node,
                                     per_node};
    analysis::configuration best = analysis::evaluate(topology(), rates, costs);
    auto const consider = [&](analysis::configuration&& other) {
        if (other.tokens_per_second() > best.tokens_per_second()) best = std::move(other);
    };
    for (std::int32_t depth = 1; depth <= static_cast<std::int32_t>(levels); ++depth)
        consider(analysis::evaluate(chain(depth), rates, costs));
    if (!chains) {
        analysis::configuration tree = analysis::best_tree(rates, budget, costs);
        tree = analysis::evaluate(fitted(how, tree.shape), rates, costs);
        consider(std::move(tree));
    }
    chosen_tree chosen{best.shape, best.block_efficiency, 1, 0};
    chosen.speed_up = best.tokens_per_second() * (target_seconds.front().second + per_node);
    chosen.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return chosen;
}

}  // namespace multidraft::examples
