// Synthetic rows: a target and a draft whose logits agree about as well as a small model's do with a large one's.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "multidraft/core/config.hpp"

namespace multidraft::bench {

/// Logits of `rows` target rows and `rows` draft rows of V entries, and their probabilities.
struct rows {
    rows(index_t count, index_t vocabulary, std::uint32_t seed = 1) : size(vocabulary) {
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
        target = softmax(target_logits);
        draft = softmax(draft_logits);
    }

    std::vector<float> target_logits, draft_logits, target, draft;
    index_t size;

private:
    [[nodiscard]] std::vector<float> softmax(std::vector<float> const& logits) const {
        std::vector<float> out(logits.size());
        auto const v = static_cast<std::size_t>(size);
        for (std::size_t begin = 0; begin < logits.size(); begin += v) {
            double sum = 0;
            for (std::size_t i = 0; i < v; ++i) sum += std::exp(static_cast<double>(logits[begin + i]));
            for (std::size_t i = 0; i < v; ++i)
                out[begin + i] = static_cast<float>(std::exp(static_cast<double>(logits[begin + i])) / sum);
        }
        return out;
    }
};

}  // namespace multidraft::bench
