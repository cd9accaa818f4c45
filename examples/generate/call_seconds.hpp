// How long a forward call takes, by its rows.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "transformer/transformer.hpp"

namespace multidraft::examples {

/// Median seconds of a call with that many rows after a text of 64 tokens, over 15 calls, or fewer (at least 3) that
/// take `limit` seconds together.
inline double median_call_seconds(transformer& model, std::int32_t rows,
                                  double limit = std::numeric_limits<double>::infinity()) {
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
    for (double whole = 0; seconds.size() < 15 && (seconds.size() < 3 || whole < limit); whole += seconds.back()) {
        auto const begin = std::chrono::steady_clock::now();
        model.forward(token_batch{std::span(tokens).first(n), std::span(positions).first(n), context, {}}, logits);
        seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
        model.keep(context, {});
    }
    auto const middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
    std::nth_element(seconds.begin(), middle, seconds.end());
    return *middle;
}

}  // namespace multidraft::examples
