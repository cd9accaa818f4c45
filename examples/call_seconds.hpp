// How long forward calls take, by their rows.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/decode/language_model.hpp"
#include "multidraft/tree/mask.hpp"

namespace multidraft::examples {

/// Times calls of a model by a clock, after a text of 64 tokens, or fewer if its context is short.
template <language_model Model, class Clock = std::chrono::steady_clock>
class timed_calls {
public:
    /// The model, whose cache is emptied, belongs to the caller; calls have at most `rows` rows. Each attends to those
    /// before it; or, if they are `apart`, to the first and itself, like the rows of many requests.
    timed_calls(Model& model, std::int32_t rows, bool apart = false)
        : model_(model),
          context_(std::clamp(model.context_limit() - rows, 1, 64)),
          tokens_(static_cast<std::size_t>(std::max(rows, context_)), 5),
          positions_(tokens_.size()),
          logits_(static_cast<std::size_t>(rows) * static_cast<std::size_t>(model.vocabulary())) {
        std::iota(positions_.begin(), positions_.end(), 0);
        model_.keep(0, {});
        auto const before = static_cast<std::size_t>(context_);
        model_.forward(token_batch{std::span(tokens_).first(before), std::span(positions_).first(before), 0, {}}, {});
        // Their values do not change the time, and those of many rows would lie beyond a short context.
        for (std::size_t k = 0; k < positions_.size(); ++k)
            positions_[k] = std::min(context_ + static_cast<std::int32_t>(k), model_.context_limit() - 1);
        if (!apart) return;
        std::vector<node_id> parents(static_cast<std::size_t>(rows), 0);
        parents.front() = none;
        mask_ = ancestor_mask(parents);
    }

    /// Seconds of one call.
    [[nodiscard]] double operator()(std::int32_t rows) {
        auto const n = static_cast<std::size_t>(rows);
        mask_view mask;
        if (mask_.size() > 0 && rows > 1) mask = sliced(mask_.view(), mask_.size(), rows);
        auto const begin = Clock::now();
        model_.forward(token_batch{std::span(tokens_).first(n), std::span(positions_).first(n), context_, mask},
                       std::span(logits_).first(n * static_cast<std::size_t>(model_.vocabulary())));
        double const seconds = std::chrono::duration<double>(Clock::now() - begin).count();
        model_.keep(context_, {});
        return seconds;
    }

private:
    Model& model_;
    std::int32_t context_;
    std::vector<token_id> tokens_;
    std::vector<std::int32_t> positions_;
    std::vector<float> logits_;
    ancestor_mask mask_;
};

/// The middle one of some numbers, the larger one of two.
inline double median_of(std::vector<double> numbers) {
    auto const middle = numbers.begin() + static_cast<std::ptrdiff_t>(numbers.size() / 2);
    std::nth_element(numbers.begin(), middle, numbers.end());
    return *middle;
}

/// Median seconds of a call with that many rows after a text of 64 tokens, over 15 calls, or fewer (at least 3) that
/// take `limit` seconds together.
template <language_model Model>
double median_call_seconds(Model& model, std::int32_t rows, double limit = std::numeric_limits<double>::infinity()) {
    timed_calls<Model> call(model, rows);
    std::vector<double> seconds;
    for (double whole = 0; seconds.size() < 15 && (seconds.size() < 3 || whole < limit); whole += seconds.back())
        seconds.push_back(call(rows));
    return median_of(std::move(seconds));
}

/// The nondecreasing numbers with the least squared differences from the given ones: neighbours that decrease become
/// their mean.
inline std::vector<double> nondecreasing(std::span<double const> numbers) {
    std::vector<std::pair<double, std::size_t>> means;  // and of how many
    for (double const x : numbers) {
        means.emplace_back(x, 1);
        while (means.size() > 1 && means[means.size() - 2].first > means.back().first) {
            auto const [last, n] = means.back();
            means.pop_back();
            auto& [mean, m] = means.back();
            mean += (last - mean) * static_cast<double>(n) / static_cast<double>(m + n);
            m += n;
        }
    }
    std::vector<double> result;
    for (auto const& [mean, n] : means) result.insert(result.end(), n, mean);
    return result;
}

/// Median seconds of calls of target and draft for each number of rows, nondecreasing. `rows` increases; the result
/// ends where a call of the target takes more than 12 times the first one: no tree pays for that.
///
/// Each number of rows is timed as in a text all of whose steps have it, because a small model is read from caches that
/// the other one and larger calls would take from it. One row: the target alone, as where nothing is drafted. More:
/// the models take turns, and the draft is called twice. Calls that fit into caches are repeated before they are timed.
/// The numbers of rows take turns too, so that what slows the machine down for a while slows down all of them. Up to 9
/// rounds, or fewer (at least 3) that take `limit` seconds together.
template <language_model Model>
std::pair<std::vector<double>, std::vector<double>> median_call_seconds(Model& target, Model& draft,
                                                                        std::span<std::int32_t const> rows,
                                                                        double limit) {
    constexpr double dearest = 12;
    constexpr double cached = 5e-3;  // a longer call reads its weights from memory
    // Until a model is back in the caches: calls of the target alone, steps of both models.
    constexpr int alone = 8;
    constexpr int in_turn = 2;
    timed_calls<Model> of_target(target, rows.back());
    timed_calls<Model> of_draft(draft, rows.back());
    std::vector<std::vector<double>> target_seconds(rows.size());
    std::vector<std::vector<double>> draft_seconds(rows.size());
    std::size_t count = rows.size();
    double whole = 0;
    auto const timed = [&whole](timed_calls<Model>& call, std::int32_t of_rows) {
        double const seconds = call(of_rows);
        whole += seconds;
        return seconds;
    };
    // Target and draft. A tree takes several calls of the draft, and the first one finds the caches full of the target.
    auto const step = [&](std::int32_t of_rows) {
        double const call = timed(of_target, of_rows);
        double const first = timed(of_draft, of_rows);
        return std::pair(call, (first + timed(of_draft, of_rows)) / 2);
    };
    for (int round = 0; round < 9 && (round < 3 || whole < limit); ++round)
        for (std::size_t k = 0; k < count; ++k) {
            auto seconds = step(rows[k]);
            bool const is_cached = seconds.first < cached;
            for (int again = 0; again < (is_cached ? in_turn : 0); ++again) seconds = step(rows[k]);
            if (rows[k] == 1)
                for (int again = 0; again <= (is_cached ? alone : 0); ++again) seconds.first = timed(of_target, 1);
            target_seconds[k].push_back(seconds.first);
            draft_seconds[k].push_back(seconds.second);
            if (round == 0 && seconds.first > dearest * target_seconds[0].front()) count = k + 1;
        }
    auto const medians = [count](std::vector<std::vector<double>>& of_rows) {
        std::vector<double> result;
        for (std::size_t k = 0; k < count; ++k) result.push_back(median_of(std::move(of_rows[k])));
        return nondecreasing(result);
    };
    return {medians(target_seconds), medians(draft_seconds)};
}

}  // namespace multidraft::examples
