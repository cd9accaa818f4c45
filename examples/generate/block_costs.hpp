// The cost of steps of a block drafter by the size of their trees.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "automatic_trees.hpp"
#include "call_seconds.hpp"
#include "generate/methods.hpp"
#include "multidraft/analysis/configuration_search.hpp"
#include "multidraft/control/budget_controller.hpp"
#include "multidraft/control/controller.hpp"
#include "multidraft/decode/options.hpp"
#include "multidraft/decode/step_outcome.hpp"

namespace multidraft::examples {

/// Measures the times of steps by short texts of the method, without drafts and with trees of 1, 2, 4, .. nodes, in
/// turn, so that what slows the machine down for a while slows down all of them; the medians of 5 rounds, or fewer (at
/// least 2) that take some 4 seconds together. The drafter is asked for `levels`, and besides for one. The time of a
/// draft has that of choosing the tree. Between these trees the target's time goes as that of calls of its own, one
/// after the other. The settings' choices are left as none.
inline step_times measure_block_times(transformer& target, method const& how, std::span<token_id const> prompt,
                                      generation_options options, std::int32_t nodes, std::int32_t levels) {
    // The first calls are slower, most of all without drafts: it takes some until the weights, and nothing else, are in
    // the caches.
    constexpr std::int32_t without_drafts = 96;
    constexpr std::int32_t with_drafts = 32;
    // Calls of several rows take longer after a longer text, which all of them read.
    std::size_t const usual = static_cast<std::size_t>(std::clamp(target.context_limit() - without_drafts, 0, 128));
    std::vector<token_id> text(prompt.begin(), prompt.end());
    while (!prompt.empty() && text.size() + prompt.size() <= usual)
        text.insert(text.end(), prompt.begin(), prompt.end());
    options.stop_tokens.clear();
    options.request = ~options.request;  // other draws than the text's
    struct size {
        std::int32_t nodes = 0;  ///< at most
        std::int32_t levels = 0;
        std::int64_t steps = 0;
        std::int64_t drafted = 0;
        std::int64_t inner = 0;
        std::vector<double> target{}, draft{}, library{};
    };
    std::vector<size> sizes{{0, 0}, {1, 1}};
    for (std::int32_t n = 1; n < nodes; n *= 2) sizes.push_back({n, levels});
    sizes.push_back({nodes, levels});
    // Their trees have all of their nodes where they are best first.
    bool const by_reach = std::exchange(settings().by_reach, false);
    constexpr double longest = 4;
    double whole = 0;
    for (int round = 0; round < 5 && (round < 2 || whole < longest); ++round)
        for (size& one : sizes) {
            // Where neither rows nor drafts cost anything, trees have most of the nodes that they may have.
            budget_controller free({analysis::call_cost({{1, 1.0}}), analysis::call_cost({{1, 0.0}}), {{}}},
                                   {.nodes = std::max(one.nodes, 1),
                                    .levels = std::max(one.levels, 1),
                                    .credit = 1e9,
                                    .learns_times = false});
            settings().choices = &free;
            options.max_tokens = one.nodes > 0 ? with_drafts : without_drafts;
            options.observer = [&one](step_view const& step) {
                for (node_id v = 0; v < step.tree.size(); ++v) one.inner += step.tree.children(v).count > 0 ? 1 : 0;
            };
            auto const& way = one.nodes > 0 ? how : find_method(all_methods().front().name);
            generation_metrics const m = way.run(target, target, topology(), text, options, {}).metrics;
            settings().choices = nullptr;
            auto const steps = static_cast<double>(std::max<std::int64_t>(m.target_calls, 1));
            step_seconds const seconds = step_seconds::of(m);
            one.steps += m.target_calls;
            one.drafted += m.drafted;
            one.target.push_back(seconds.target / steps);
            one.draft.push_back(seconds.draft / static_cast<double>(std::max<std::int64_t>(m.draft_calls, 1)));
            one.library.push_back(seconds.library / steps);
            whole += m.seconds;
        }
    settings().by_reach = by_reach;
    auto const of_step = [](std::int64_t number, size const& one) {
        return static_cast<double>(number) / static_cast<double>(std::max<std::int64_t>(one.steps, 1));
    };
    std::vector<double> draft;
    for (std::size_t k = 2; k < sizes.size(); ++k) draft.push_back(median_of(sizes[k].draft));
    auto of_target = seconds_of_rows(target, nodes);
    analysis::call_cost const alone(of_target);
    std::vector<double> slower;
    for (std::size_t k = 1; k < sizes.size(); ++k)
        slower.push_back(median_of(sizes[k].target) /
                         alone(static_cast<std::int32_t>(1.5 + of_step(sizes[k].drafted, sizes[k]))));
    double const factor = median_of(std::move(slower));
    of_target.front().second = median_of(sizes.front().target);
    for (std::size_t k = 1; k < of_target.size(); ++k)
        of_target[k].second = std::max(of_target[k - 1].second, factor * of_target[k].second);
    // Of a node with children by the largest and the least trees of all levels; the rest of what the library does more
    // than without drafts is the choice.
    double const none = median_of(sizes.front().library);
    size const& least = sizes[2];
    size const& most = sizes.back();
    double const more = of_step(most.inner, most) - of_step(least.inner, least);
    double const inner = more > 0 ? std::max(0.0, (median_of(most.library) - median_of(least.library)) / more) : 0;
    auto const choosing = [&](size const& one) { return std::max(0.0, median_of(one.library) - none - inner); };
    std::vector<std::pair<std::int32_t, double>> of_draft{{1, median_of(sizes[1].draft) + choosing(sizes[1])}};
    if (levels > 1)
        of_draft.emplace_back(levels, std::max(of_draft.front().second, median_of(draft) + choosing(least)));
    return {analysis::call_cost(std::move(of_target)), analysis::call_cost(std::move(of_draft)), {{none, inner}}};
}

}  // namespace multidraft::examples
