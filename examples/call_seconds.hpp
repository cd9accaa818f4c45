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

#include "multidraft/core/config.hpp"
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
        std::iota(positions_.begin(), positions_.end(), context_);
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
/// The models take turns, as in the steps of a text: a draft that has the caches for itself takes a fraction of the
/// time that it takes after a call of the target. The numbers of rows take turns too, so that what slows the machine
/// down for a while slows down all of them. Up to 15 rounds, or fewer (at least 3) that take `limit` seconds together.
template <language_model Model>
std::pair<std::vector<double>, std::vector<double>> median_call_seconds(Model& target, Model& draft,
                                                                        std::span<std::int32_t const> rows,
                                                                        double limit) {
    constexpr double dearest = 12;
    timed_calls<Model> of_target(target, rows.back());
    timed_calls<Model> of_draft(draft, rows.back());
    std::vector<std::vector<double>> target_seconds(rows.size());
    std::vector<std::vector<double>> draft_seconds(rows.size());
    std::size_t count = rows.size();
    double whole = 0;
    for (int round = 0; round < 15 && (round < 3 || whole < limit); ++round)
        for (std::size_t k = 0; k < count; ++k) {
            target_seconds[k].push_back(of_target(rows[k]));
            // A tree takes several calls of the draft, and the first one finds the caches full of the target.
            double const first = of_draft(rows[k]);
            draft_seconds[k].push_back((first + of_draft(rows[k])) / 2);
            whole += target_seconds[k].back() + 2 * draft_seconds[k].back();
            if (round == 0 && target_seconds[k].back() > dearest * target_seconds[0].front()) count = k + 1;
        }
    auto const medians = [count](std::vector<std::vector<double>>& of_rows) {
        std::vector<double> result;
        for (std::size_t k = 0; k < count; ++k) result.push_back(median_of(std::move(of_rows[k])));
        return nondecreasing(result);
    };
    return {medians(target_seconds), medians(draft_seconds)};
}

}  // namespace multidraft::examples
