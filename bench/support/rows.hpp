// Synthetic rows: a target and a draft whose logits agree about as well as those of a small and a large model.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "multidraft/base/config.hpp"

namespace multidraft::bench {

/// The sampling of rows; common defaults of engines are {0.6, 0.9}.
struct sampling {
    float temperature = 1;
    double top_p = 1;
};

/// Logits of `rows` target rows and `rows` draft rows of V entries, and their probabilities.
struct rows {
    rows(index_t count, index_t vocabulary, std::uint32_t seed = 1, sampling how = {}) : size(vocabulary) {
        auto const n = static_cast<std::size_t>(count) * static_cast<std::size_t>(vocabulary);
        std::mt19937 engine(seed);
        std::normal_distribution<float> normal;
        target_logits.resize(n);
        draft_logits.resize(n);
        for (std::size_t i = 0; i < n; ++i) {
            float const base = 2.5F * normal(engine);
            target_logits[i] = base;
            draft_logits[i] = base + normal(engine);
        }
        target = softmax(target_logits, how);
        draft = softmax(draft_logits, how);
    }

    std::vector<float> target_logits, draft_logits, target, draft;
    index_t size;

private:
    [[nodiscard]] std::vector<float> softmax(std::vector<float> const& logits, sampling how) const {
        std::vector<float> out(logits.size());
        auto const v = static_cast<std::size_t>(size);
        std::vector<double> weights(v);
        for (std::size_t begin = 0; begin < logits.size(); begin += v) {
            double sum = 0;
            for (std::size_t i = 0; i < v; ++i)
                sum += weights[i] = std::exp(static_cast<double>(logits[begin + i] / how.temperature));
            if (how.top_p < 1) sum = cut(weights, how.top_p * sum);
            for (std::size_t i = 0; i < v; ++i) out[begin + i] = static_cast<float>(weights[i] / sum);
        }
        return out;
    }

    /// Leaves the largest weights that reach a sum; returns what is left.
    static double cut(std::vector<double>& weights, double enough) {
        std::vector<double> sorted = weights;
        std::sort(sorted.begin(), sorted.end(), std::greater<>());
        double sum = 0;
        std::size_t kept = 0;
        while (kept < sorted.size() && sum < enough) sum += sorted[kept++];
        for (double& w : weights) w = w < sorted[kept - 1] ? 0 : w;
        return sum;
    }
};

}  // namespace multidraft::bench
