// The cost of steps of a head of EAGLE-3, which is called for each level of a tree.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "automatic_trees.hpp"
#include "generate/methods.hpp"
#include "multidraft/analysis/configuration_search.hpp"
#include "multidraft/control/controller.hpp"
#include "multidraft/decode/language_model.hpp"
#include "multidraft/decode/options.hpp"
#include "multidraft/tree/mask.hpp"
#include "transformer/eagle_head.hpp"

namespace multidraft::examples {

/// Median seconds of calls of a head by their rows, which are a level of a tree: each attends to the text and to
/// itself. Empties the head's cache.
inline std::vector<std::pair<std::int32_t, double>> seconds_of_levels(eagle_head_model& head, std::int32_t nodes) {
    std::vector<std::int32_t> const sizes = measured_rows(nodes);
    std::int32_t const most = sizes.back();
    std::int32_t const before = std::clamp(head.context_limit() - most, 1, 64);
    auto const count = [](std::int32_t n) { return static_cast<std::size_t>(n); };
    std::vector<token_id> const tokens(count(std::max(most, before)), 5);
    std::vector<std::int32_t> positions(tokens.size());
    std::iota(positions.begin(), positions.end(), 0);
    std::vector<float> const features(count(before) * count(head.feature_size()), 0.5F);
    std::vector<float> logits(count(most) * count(head.vocabulary()));
    head.keep(0, {});
    auto const text = std::span(positions).first(count(before));
    head.observe(features, text);
    head.forward({std::span(tokens).first(text.size()), text, 0, {}}, {});
    std::fill(positions.begin(), positions.end(), before);
    auto const words = (count(most) + 63) / 64;
    std::vector<std::uint64_t> apart(count(most) * words);
    for (std::size_t i = 0; i < count(most); ++i) apart[i * words + i / 64] = std::uint64_t{1} << (i % 64);
    mask_view const mask{apart.data(), static_cast<std::int64_t>(words), most};
    auto result = seconds_by_size(sizes, [&](std::int32_t rows) {
        using clock = std::chrono::steady_clock;
        auto const begin = clock::now();
        head.forward({std::span(tokens).first(count(rows)), std::span(positions).first(count(rows)), before, mask},
                     std::span(logits).first(count(rows) * count(head.vocabulary())));
        double const seconds = std::chrono::duration<double>(clock::now() - begin).count();
        head.keep(before, {});
        return seconds;
    });
    head.keep(0, {});
    return result;
}

/// Measures the cost of steps: calls of the target and of its head by rows, and the library's part.
inline step_times measure_head_times(transformer& target, method const& how, std::span<token_id const> prompt,
                                     generation_options const& options, std::int32_t nodes) {
    return {analysis::call_cost(seconds_of_rows(target, nodes)),
            analysis::call_cost(seconds_of_levels(eagle_head_of(target), nodes)),
            measure_library(target, target, how, prompt, options)};
}

}  // namespace multidraft::examples
